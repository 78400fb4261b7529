//! What the view knows, and what events make of it.

use std::{collections::VecDeque, time::Duration};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    Action,
    rates::{Rate, Rates},
};
use crate::observe::{
    Interface,
    busiest::{Filter, Order},
    live::{Row, Sample, Wanted},
};

/// Samples that the curves go back: more than a screen is wide.
const HISTORY: usize = 512;

/// Lines that a page is long.
const PAGE: usize = 10;

/// Characters of a filter: more than an address of IPv6 with its prefix has.
const FILTER_MAX: usize = 64;

/// Something has happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// Another look was taken.
    Sample(Box<Sample>),
    /// What is to be known before an action is confirmed.
    Warning(Option<String>),
    /// An action is done, or has failed; in words.
    Done(Result<String, String>),
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// End.
    Leave,
    /// Give the terminal back, and stop until somebody lets this go on.
    Suspend,
    /// Find out what the user must know before this is confirmed.
    Check(Action),
    /// Do it.
    Do(Action),
}

/// What keys mean at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Sources are looked at.
    Look,
    /// The filter is typed.
    Filter,
    /// An action is to be confirmed.
    Ask(Action, Option<String>),
    /// It is being done.
    Work(Action),
    /// The help is read.
    Help,
}

/// What is on the screen.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// Its activity.
    pub sample: Sample,
    /// Packets a second, where there is something to compare with.
    pub rates: Option<Rates>,
    /// Those of all packets until then, the last one first.
    pub history: Vec<Rate>,
}

/// What the view knows.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) order: Order,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) paused: bool,
    /// What was done last, and whether it failed.
    pub(super) notice: Option<(String, bool)>,
    pub(super) picture: Option<Picture>,
    pub(super) interval: Duration,
    most: usize,
    history: VecDeque<Rate>,
    last: Option<Interface>,
    /// Source and limit of the line that was chosen; none: the first one, whoever that is.
    chosen: Option<(String, String)>,
    /// Where it was.
    line: usize,
}

impl State {
    /// Nothing was seen yet. Shows `most` sources at most, and looks every `interval`.
    #[must_use]
    pub fn new(most: usize, interval: Duration) -> Self {
        Self {
            order: Order::default(),
            filter: String::new(),
            mode: Mode::Look,
            paused: false,
            notice: None,
            picture: None,
            interval,
            most,
            history: VecDeque::new(),
            last: None,
            chosen: None,
            line: 0,
        }
    }

    /// What to look for.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        Wanted {
            order: self.order,
            filter: Filter::new(&self.filter),
            most: self.most,
        }
    }

    /// What the event makes of it, and what is to be done.
    #[must_use]
    pub fn after(mut self, event: Event) -> (Self, Effect) {
        let mut effect = Effect::None;
        match event {
            Event::Key(key) => effect = self.key(key),
            Event::Sample(sample) => self.sampled(*sample),
            Event::Warning(text) => {
                if let Mode::Ask(_, warning) = &mut self.mode {
                    *warning = text;
                }
            }
            Event::Done(result) => {
                self.mode = Mode::Look;
                let failed = result.is_err();
                self.notice = Some((result.unwrap_or_else(|error| error), failed));
            }
        }
        (self, effect)
    }

    fn sampled(&mut self, sample: Sample) {
        let rates = match (&self.last, sample.elapsed) {
            (Some(last), Some(elapsed)) => Some(Rates::between(last, &sample.interface, elapsed)),
            _ => None,
        };
        if let Some(rates) = &rates {
            self.history.push_front(rates.all);
            self.history.truncate(HISTORY);
        }
        self.last = Some(sample.interface.clone());
        // Those on the screen stay there, but counting goes on.
        if self.paused && self.picture.is_some() {
            return;
        }
        self.picture = Some(Picture {
            sample,
            rates,
            history: self.history.iter().copied().collect(),
        });
    }

    /// The sources that are on the screen: a new order or filter holds at once for those that are there, and for
    /// all others at the next look.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let Some(picture) = &self.picture else {
            return Vec::new();
        };
        let filter = Filter::new(&self.filter);
        let wanted =
            |row: &&Row| filter.wants(|| &row.source, &row.limit.to_lowercase(), || row.network);
        let mut rows: Vec<_> = picture.sample.rows.iter().filter(wanted).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.activity.rank(self.order, row.place)));
        rows
    }

    /// Which of `rows` keys act on.
    pub(super) fn selected(&self, rows: &[&Row]) -> usize {
        let Some(chosen) = &self.chosen else {
            return 0;
        };
        let found = rows.iter().position(|row| name(row) == *chosen);
        found.unwrap_or(self.line.min(rows.len().saturating_sub(1)))
    }

    fn key(&mut self, key: KeyEvent) -> Effect {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let key = match key.code {
            KeyCode::Char('c' | 'C') if control => return Effect::Leave,
            KeyCode::Char('z' | 'Z') if control => return Effect::Suspend,
            KeyCode::Char(_) if control => KeyCode::Null,
            key => key,
        };
        match self.mode {
            Mode::Look => return self.look(key),
            Mode::Filter => self.type_filter(key),
            Mode::Ask(action, _) => return self.answer(action, key),
            Mode::Work(_) => {}
            Mode::Help => self.mode = Mode::Look,
        }
        Effect::None
    }

    fn look(&mut self, key: KeyCode) -> Effect {
        self.notice = None;
        match key {
            KeyCode::Char('q') => return Effect::Leave,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('s') => self.order = self.order.after(1),
            KeyCode::Char('S') => self.order = self.order.after(Order::ALL.len() - 1),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.go(|line, _| line.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.go(|line, _| line + 1),
            KeyCode::PageUp => self.go(|line, _| line.saturating_sub(PAGE)),
            KeyCode::PageDown => self.go(|line, _| line + PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.chosen = None,
            KeyCode::End | KeyCode::Char('G') => self.go(|_, lines| lines),
            KeyCode::Char('d') => return self.ask(|source| Action::list("deny", source)),
            KeyCode::Char('a') => return self.ask(|source| Action::list("allow", source)),
            KeyCode::Char('r') => return self.ask(Action::reset),
            _ => {}
        }
        Effect::None
    }

    /// Chooses another line, from that and the number of lines.
    fn go(&mut self, to: impl FnOnce(usize, usize) -> usize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let line = to(self.selected(&rows), rows.len()).min(last);
        let chosen = name(rows[line]);
        (self.line, self.chosen) = (line, Some(chosen));
    }

    fn ask(&mut self, action: impl FnOnce(&Row) -> Option<Action>) -> Effect {
        let rows = self.rows();
        let line = self.selected(&rows);
        let Some(row) = rows.get(line) else {
            self.notice = Some(("no source is there to do that to".to_owned(), true));
            return Effect::None;
        };
        let Some(action) = action(row) else {
            let name = &row.source;
            let text = match (row.reason, row.network) {
                (Some(_), Some(_)) => {
                    format!("{name} has no bucket: the deny list drops its packets")
                }
                (Some(_), None) => format!("'{name}' are many sources: choose one"),
                (None, _) => format!(
                    "the bucket of '{name}' is everybody's, no source's: `limiter reset IFACE --all` fills it"
                ),
            };
            self.notice = Some((text, true));
            return Effect::None;
        };
        // The same key is to undo it, wherever the source goes then.
        (self.line, self.chosen) = (line, Some(name(row)));
        self.mode = Mode::Ask(action, None);
        Effect::Check(action)
    }

    fn answer(&mut self, action: Action, key: KeyCode) -> Effect {
        if matches!(key, KeyCode::Char('y' | 'Y')) {
            self.mode = Mode::Work(action);
            return Effect::Do(action);
        }
        self.mode = Mode::Look;
        self.notice = Some(("nothing was changed".to_owned(), false));
        Effect::None
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(typed) if self.filter.chars().count() < FILTER_MAX => {
                self.filter.push(typed);
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.mode = Mode::Look,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Look;
            }
            _ => {}
        }
    }
}

/// What tells a line from others.
fn name(row: &Row) -> (String, String) {
    (row.source.clone(), row.limit.clone())
}
