//! The keys of the live view.

use std::net::IpAddr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ipnet::IpNet;
use limiter_config::lists::show;

use crate::{
    cli::lists::ban::lasting,
    helper::{Deed, Verb},
    observe::{Filter, choice::Chosen, sample::Gauge},
    show::live::{Content, Dialog, Page, Told, View, columns},
};

/// The time of a ban that is offered.
const BAN: &str = "10m";

/// The work that follows a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing but drawing.
    None,
    /// The view ends.
    Quit,
    /// The screen is cleared, and drawn anew.
    Clear,
    /// Other sources are shown.
    Scroll,
    /// The next interface is shown.
    Next,
    /// A command is run.
    Do(Deed),
}

/// The view, and what its keys change.
pub struct Seat {
    pub view: View,
    pub gauge: Gauge,
    /// The address that the user works from, by SSH.
    pub client: Option<IpAddr>,
    /// The command that waits for its time or for a yes.
    pub pending: Option<Deed>,
    /// True if the last command with lines explains a flood.
    pub explains: bool,
}

impl Seat {
    /// Handles a key.
    pub fn press(&mut self, key: KeyEvent) -> Reaction {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => return Reaction::Quit,
            KeyCode::Char('l') if has_control => return Reaction::Clear,
            _ => {}
        }
        if self.view.help {
            self.view.help = false;
            return Reaction::None;
        }
        if let Some(mut page) = self.view.page.take() {
            let is_of_senders = matches!(page.content, Content::Senders(_));
            if is_of_senders && key.code == KeyCode::Char('w') {
                return self.count_senders();
            }
            self.view.page = scrolled(page.first, self.view.rows, key.code).map(|first| {
                page.first = first;
                page
            });
            return Reaction::None;
        }
        match self.view.dialog.take() {
            None => self.command(key.code),
            Some(dialog) => self.reply(dialog, key),
        }
    }

    /// Handles a key while no question is open.
    fn command(&mut self, code: KeyCode) -> Reaction {
        self.view.result = None;
        let chosen = self.view.sample.chosen;
        let screen = self.view.rows.max(1);
        match code {
            KeyCode::Char('q') => return Reaction::Quit,
            KeyCode::Esc if self.view.filter.is_empty() => return Reaction::Quit,
            KeyCode::Esc => return self.filtered(String::new()),
            KeyCode::Char('?' | 'h') => self.view.help = true,
            KeyCode::Char('p' | ' ') => self.view.paused = !self.view.paused,
            KeyCode::Char('l') => self.view.all_limits = !self.view.all_limits,
            KeyCode::Char('L') => self.view.page = Some(Page::new(Content::Limits)),
            KeyCode::Char('w') => return self.count_senders(),
            KeyCode::Char('e') => return self.explain(),
            KeyCode::Tab if self.view.paused => self.refuse_paused(),
            KeyCode::Tab => return Reaction::Next,
            KeyCode::Up => return self.choose(chosen.saturating_sub(1)),
            KeyCode::Down => return self.choose(chosen + 1),
            KeyCode::PageUp => return self.choose(chosen.saturating_sub(screen)),
            KeyCode::PageDown => return self.choose(chosen + screen),
            KeyCode::Home => return self.choose(0),
            KeyCode::End => {
                self.gauge.choice.chosen = Chosen::Last;
                return Reaction::Scroll;
            }
            KeyCode::Char('s' | 'S' | '<' | '>' | 'i' | '/') if self.view.paused => {
                self.refuse_paused();
            }
            KeyCode::Char('s' | '>') => self.sort(1),
            KeyCode::Char('S' | '<') => self.sort(-1),
            KeyCode::Char('i') => {
                self.gauge.choice.reversed = !self.gauge.choice.reversed;
                self.view.reversed = self.gauge.choice.reversed;
            }
            KeyCode::Char('/') => {
                self.view.dialog = Some(Dialog::Filter(self.view.filter.clone()));
            }
            KeyCode::Char('b') => self.propose(|source| Verb::Ban(source, BAN.to_owned())),
            KeyCode::Char('a') => self.propose(Verb::Allow),
            KeyCode::Char('r') => self.propose(Verb::Reset),
            _ => {}
        }
        Reaction::None
    }

    fn choose(&mut self, number: usize) -> Reaction {
        self.gauge.choose(number);
        Reaction::Scroll
    }

    /// Sorts by another column, `by` places to the right.
    fn sort(&mut self, by_columns: isize) {
        let orders = columns(&self.view);
        let place = orders.iter().position(|order| *order == self.view.order);
        let next = place.unwrap_or(0).checked_add_signed(by_columns);
        let next = next.unwrap_or(orders.len() - 1) % orders.len();
        self.view.order = orders[next];
        self.gauge.choice.order = orders[next];
    }

    fn filtered(&mut self, text: String) -> Reaction {
        self.gauge.choice.filter = Filter::read(&text);
        self.gauge.choice.chosen = Chosen::First;
        self.view.filter = text.trim().to_owned();
        Reaction::None
    }

    fn refuse_paused(&mut self) {
        self.refuse("the view is paused: p goes on, then this key works");
    }

    fn refuse(&mut self, text: &str) {
        self.view.result = Some(Told {
            text: text.to_owned(),
            is_error: true,
        });
    }

    /// The command that counts who sends. It needs no confirmation: no packet fares differently.
    fn count_senders(&mut self) -> Reaction {
        self.explains = false;
        Reaction::Do(self.about_all(Verb::Senders))
    }

    /// The command that explains a flood, without confirmation, as for [`Self::count_senders`].
    fn explain(&mut self) -> Reaction {
        self.explains = true;
        Reaction::Do(self.about_all(Verb::Explain(false)))
    }

    fn about_all(&self, verb: Verb) -> Deed {
        Deed {
            verb,
            interface: self.view.sample.interface.name.clone(),
        }
    }

    /// The lines that the last command with lines has printed.
    pub fn content(&self, lines: Vec<String>) -> Content {
        match self.explains {
            true => Content::Explanation(lines),
            false => Content::Senders(lines),
        }
    }

    /// Proposes a command about the chosen source.
    fn propose(&mut self, verb: impl FnOnce(IpNet) -> Verb) {
        let sample = &self.view.sample;
        let row = sample.chosen.saturating_sub(sample.first);
        let Some(chosen) = sample.top.sources.get(row) else {
            return self.refuse("no source is chosen");
        };
        let Some(source) = chosen.network else {
            let text = format!(
                "{} is no address of a source: bans, lists and resets need one",
                chosen.source
            );
            return self.refuse(&text);
        };
        let deed = Deed {
            verb: verb(source),
            interface: sample.interface.name.clone(),
        };
        self.view.dialog = Some(match &deed.verb {
            Verb::Ban(source, time) => Dialog::Time {
                source: show(source),
                text: time.clone(),
                wrong: None,
            },
            _ => self.confirmed(&deed),
        });
        self.pending = Some(deed);
    }

    /// The question before a command is run.
    fn confirmed(&self, deed: &Deed) -> Dialog {
        let is_own = |source: &IpNet| self.client.is_some_and(|client| source.contains(&client));
        let is_danger = matches!(&deed.verb, Verb::Ban(source, _) if is_own(source));
        let warning = is_danger.then(|| {
            "WARNING: your own SSH session comes from there, and the ban may cut it off".to_owned()
        });
        Dialog::Confirm {
            command: deed.words().join(" "),
            warning,
        }
    }

    /// Handles a key that replies to a question.
    fn reply(&mut self, dialog: Dialog, key: KeyEvent) -> Reaction {
        match dialog {
            Dialog::Filter(mut text) => match typed(&mut text, key) {
                Typed::More => self.view.dialog = Some(Dialog::Filter(text)),
                Typed::Done => return self.filtered(text),
                Typed::Left => {}
            },
            Dialog::Time {
                source, mut text, ..
            } => {
                let wrong = match typed(&mut text, key) {
                    Typed::More => None,
                    Typed::Done => match lasting(text.trim()) {
                        Ok(_) => return self.ban_for(text.trim()),
                        Err(why) => Some(why),
                    },
                    Typed::Left => return Reaction::None,
                };
                self.view.dialog = Some(Dialog::Time {
                    source,
                    text,
                    wrong,
                });
            }
            Dialog::Confirm { .. } if key.code == KeyCode::Char('y') => {
                return self.pending.take().map_or(Reaction::None, Reaction::Do);
            }
            Dialog::Confirm { .. } => self.refuse("nothing was changed"),
            Dialog::Waiting(_) => self.view.dialog = Some(dialog),
        }
        Reaction::None
    }

    fn ban_for(&mut self, time: &str) -> Reaction {
        if let Some(mut deed) = self.pending.take() {
            if let Verb::Ban(_, lasting) = &mut deed.verb {
                time.clone_into(lasting);
            }
            self.view.dialog = Some(self.confirmed(&deed));
            self.pending = Some(deed);
        }
        Reaction::None
    }
}

/// The first limit of the list behind a key; none if the key leaves the list. The view keeps it within the list.
fn scrolled(first: usize, rows: usize, code: KeyCode) -> Option<usize> {
    match code {
        KeyCode::Up => Some(first.saturating_sub(1)),
        KeyCode::Down => Some(first + 1),
        KeyCode::PageUp => Some(first.saturating_sub(rows)),
        KeyCode::PageDown => Some(first + rows),
        KeyCode::Home => Some(0),
        KeyCode::End => Some(usize::MAX),
        _ => None,
    }
}

/// The state of a text that is typed.
enum Typed {
    More,
    Done,
    Left,
}

/// Handles a key while a text is typed.
fn typed(text: &mut String, key: KeyEvent) -> Typed {
    match key.code {
        KeyCode::Enter => return Typed::Done,
        KeyCode::Esc => return Typed::Left,
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => text.clear(),
        KeyCode::Char(c) => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
    Typed::More
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        observe::Order,
        show::live::{Palette, example},
    };

    fn seat() -> Seat {
        let mut sample = example::flood(9);
        for source in &mut sample.top.sources {
            source.network = limiter_config::lists::prefix(&source.source).ok();
        }
        Seat {
            view: View::new(sample, Duration::from_secs(1), Palette::default()),
            gauge: Gauge::default(),
            client: Some("192.0.2.66".parse().unwrap()),
            pending: None,
            explains: false,
        }
    }

    fn press(seat: &mut Seat, keys: &str) -> Reaction {
        let mut last = Reaction::None;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\u{8}' => KeyCode::Backspace,
                '\t' => KeyCode::Tab,
                key => KeyCode::Char(key),
            };
            last = seat.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    fn command(reaction: Reaction) -> Option<String> {
        match reaction {
            Reaction::Do(deed) => Some(deed.words().join(" ")),
            _ => None,
        }
    }

    #[test]
    fn ban_asks_for_the_time_and_then_whether() {
        let mut seat = seat();
        assert_eq!(press(&mut seat, "b\n"), Reaction::None);
        let Some(Dialog::Confirm { warning, .. }) = &seat.view.dialog else {
            panic!("{:?}", seat.view.dialog);
        };
        assert!(warning.is_some(), "the user's own session comes from there");
        let done = press(&mut seat, "y");
        assert_eq!(command(done).unwrap(), "ban eth0 192.0.2.66 --for 10m");
        // Another time; one that is none is asked for again.
        let done = press(&mut seat, "b\u{8}\u{8}\u{8}x\n");
        assert_eq!(done, Reaction::None);
        let Some(Dialog::Time { wrong, .. }) = &seat.view.dialog else {
            panic!("{:?}", seat.view.dialog);
        };
        assert!(wrong.as_ref().unwrap().contains("10m"), "{wrong:?}");
        let done = press(&mut seat, "\u{8}2h\ny");
        assert_eq!(command(done).unwrap(), "ban eth0 192.0.2.66 --for 2h");
    }

    #[test]
    fn allow_and_reset_ask_whether_and_other_keys_change_nothing() {
        let mut seat = seat();
        seat.view.sample.chosen = 2;
        assert_eq!(
            command(press(&mut seat, "ay")).unwrap(),
            "allow add eth0 192.0.2.9"
        );
        assert_eq!(
            command(press(&mut seat, "ry")).unwrap(),
            "reset eth0 192.0.2.9"
        );
        for keys in ["an", "a\u{1b}", "r\n", "rq", "b\u{1b}", "b\n\n"] {
            assert_eq!(press(&mut seat, keys), Reaction::None, "{keys:?}");
            assert_eq!(seat.view.dialog, None, "{keys:?}");
        }
        // A question that was left is not answered later.
        assert_eq!(press(&mut seat, "y"), Reaction::None);
    }

    #[test]
    fn row_without_an_address_is_refused() {
        let mut seat = seat();
        seat.view.sample.top.sources[0].network = None;
        for key in ["b", "a", "r"] {
            press(&mut seat, key);
            assert!(seat.view.result.take().unwrap().is_error);
            assert_eq!(seat.view.dialog, None);
        }
    }

    #[test]
    fn senders_are_counted_and_their_page_scrolls_until_another_key() {
        let mut seat = seat();
        let count = "watch --by source,port,protocol --for 5s --rows 200 eth0";
        assert_eq!(command(press(&mut seat, "w")).unwrap(), count);
        let content = Content::Senders(vec!["eth0: 1 packet/s".to_owned()]);
        seat.view.page = Some(Page::new(content));
        seat.press(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
        assert_eq!(seat.view.page.as_ref().unwrap().first, 1);
        assert_eq!(command(press(&mut seat, "w")).unwrap(), count, "again");
        seat.view.page = Some(Page::new(Content::Limits));
        assert_eq!(press(&mut seat, "w"), Reaction::None);
        assert_eq!(seat.view.page, None);
    }

    #[test]
    fn flood_is_explained_on_a_page_that_scrolls() {
        let mut seat = seat();
        assert_eq!(
            command(press(&mut seat, "e")).unwrap(),
            "explain --for 10s eth0"
        );
        let content = seat.content(vec!["eth0: 1 packet/s".to_owned()]);
        assert!(matches!(content, Content::Explanation(_)));
        seat.view.page = Some(Page::new(content));
        assert_eq!(press(&mut seat, "w"), Reaction::None, "w leaves the page");
        assert_eq!(seat.view.page, None);
    }

    #[test]
    fn sort_goes_through_all_columns_and_back() {
        let mut seat = seat();
        let all = columns(&seat.view);
        let mut seen = Vec::new();
        for _ in &all {
            press(&mut seat, "s");
            assert_eq!(seat.gauge.choice.order, seat.view.order);
            seen.push(seat.view.order);
        }
        assert!(all.iter().all(|order| seen.contains(order)), "{seen:?}");
        assert_eq!(seat.view.order, Order::DropRate);
        press(&mut seat, "><S");
        assert_eq!(seat.view.order, Order::PassRate);
        press(&mut seat, "i");
        assert!(seat.gauge.choice.reversed && seat.view.reversed);
    }

    #[test]
    fn filter_is_typed_and_escape_clears_it_before_it_quits() {
        let mut seat = seat();
        press(&mut seat, "/192.0.2.0/24\n");
        assert_eq!(seat.view.filter, "192.0.2.0/24");
        let within = Filter::Within("192.0.2.0/24".parse().unwrap());
        assert_eq!(seat.gauge.choice.filter, within);
        press(&mut seat, "/q\u{1b}");
        assert_eq!(seat.view.filter, "192.0.2.0/24", "a question that was left");
        assert_eq!(press(&mut seat, "\u{1b}"), Reaction::None);
        assert_eq!(seat.gauge.choice.filter, Filter::All);
        assert_eq!(press(&mut seat, "\u{1b}"), Reaction::Quit);
        assert_eq!(press(&mut seat, "q"), Reaction::Quit);
    }

    #[test]
    fn paused_view_says_which_keys_do_not_work() {
        let mut seat = seat();
        press(&mut seat, "p");
        for key in ["s", "/", "i", "\t"] {
            assert_eq!(press(&mut seat, key), Reaction::None);
            assert!(
                seat.view.result.take().unwrap().text.contains("paused"),
                "{key}"
            );
        }
        press(&mut seat, " ");
        assert!(!seat.view.paused);
        assert_eq!(press(&mut seat, "\t"), Reaction::Next);
        press(&mut seat, "?q");
        assert!(
            !seat.view.help,
            "a key leaves the help, and does nothing else"
        );
        press(&mut seat, "l");
        assert!(seat.view.all_limits);
    }
}
