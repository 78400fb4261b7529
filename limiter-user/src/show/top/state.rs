//! The state of the view, and its changes by events.

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

/// Samples in the curves: more than a screen is wide.
const HISTORY: usize = 512;

const PAGE: usize = 10;

/// Maximum characters of a filter: more than an IPv6 address with its prefix.
const FILTER_MAX: usize = 64;

/// An event that changes the state.
#[derive(Clone, Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// A new sample arrived.
    Sample(Box<Sample>),
    /// The warning to show before an action is confirmed, if any.
    Warning(Option<String>),
    /// An action succeeded or failed, with a message.
    Done(Result<String, String>),
}

/// A request to the caller, after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Do nothing.
    None,
    /// End the program.
    Leave,
    /// Give the terminal back, and stop until a signal continues the process.
    Suspend,
    /// Find the warning to show before the action is confirmed.
    Check(Action),
    /// Carry out the action.
    Do(Action),
}

/// The meaning of keys at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The sources are shown.
    Look,
    /// The filter is being typed.
    Filter,
    /// An action waits for confirmation.
    Ask(Action, Option<String>),
    /// An action is in progress.
    Work,
}

/// The content of the screen.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// The sample on the screen.
    pub sample: Sample,
    /// Packets per second, if there is an earlier sample to compare with.
    pub rates: Option<Rates>,
    /// Rates of all packets until then, newest first.
    pub history: Vec<Rate>,
}

/// The state of the view.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) order: Order,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) paused: bool,
    /// Message about the last action, and whether it is an error.
    pub(super) notice: Option<(String, bool)>,
    pub(super) picture: Option<Picture>,
    pub(super) interval: Duration,
    most: usize,
    history: VecDeque<Rate>,
    last: Option<Interface>,
    /// Source and limit of the chosen line; none: the first line, whatever its source.
    chosen: Option<(String, String)>,
    line: usize,
}

impl State {
    /// Creates a state without data. Shows at most `most` sources, and takes a sample every `interval`.
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

    /// The selection of sources to read.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            order: self.order,
            filter: Filter::new(&self.filter),
            most: self.most,
        }
    }

    /// The state after the event, and the request that follows.
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
        // A paused screen keeps its sources, but counting continues.
        if self.paused && self.picture.is_some() {
            return;
        }
        self.picture = Some(Picture {
            sample,
            rates,
            history: self.history.iter().copied().collect(),
        });
    }

    /// The sources on the screen. A new order or filter applies at once to these sources, and to all others at the
    /// next sample.
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

    /// The index in `rows` of the line that keys act on.
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
            Mode::Work => {}
        }
        Effect::None
    }

    fn look(&mut self, key: KeyCode) -> Effect {
        self.notice = None;
        match key {
            KeyCode::Char('q') => return Effect::Leave,
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

    /// Chooses another line. `to` computes it from the current line and the number of lines.
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
            self.notice = Some(("no source is selected".to_owned(), true));
            return Effect::None;
        };
        let Some(action) = action(row) else {
            let name = &row.source;
            let text = match (row.reason, row.network) {
                (Some(_), Some(_)) => {
                    format!("{name} has no bucket: the deny list drops its packets")
                }
                (Some(_), None) => format!("'{name}' stands for many sources: select one source"),
                (None, _) => format!(
                    "all sources share the bucket of '{name}': `limiter reset IFACE --all` fills it"
                ),
            };
            self.notice = Some((text, true));
            return Effect::None;
        };
        // The source stays chosen wherever it moves, so that the same key undoes the action.
        (self.line, self.chosen) = (line, Some(name(row)));
        self.mode = Mode::Ask(action, None);
        Effect::Check(action)
    }

    fn answer(&mut self, action: Action, key: KeyCode) -> Effect {
        if matches!(key, KeyCode::Char('y' | 'Y')) {
            self.mode = Mode::Work;
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

/// The identity of a line: source and limit.
fn name(row: &Row) -> (String, String) {
    (row.source.clone(), row.limit.clone())
}
