//! The state of the view.

use std::time::{Duration, SystemTime};

use super::style::Palette;
use crate::observe::{Order, Sample};

/// Everything that the view shows.
#[derive(Debug)]
pub struct View {
    /// The last sample.
    pub sample: Sample,
    /// The time between two samples.
    pub interval: Duration,
    /// The time now.
    pub now: SystemTime,
    /// The order of the sources.
    pub order: Order,
    /// True if the order is reversed.
    pub reversed: bool,
    /// The filter as typed; empty: none.
    pub filter: String,
    /// True if the view shows an earlier sample.
    pub paused: bool,
    /// True if idle limits have rows.
    pub all_limits: bool,
    /// A list over the whole screen.
    pub page: Option<Page>,
    /// True if the help is shown.
    pub help: bool,
    /// True if there are other interfaces to show.
    pub has_others: bool,
    /// The question that is asked.
    pub dialog: Option<Dialog>,
    /// The result of the last command.
    pub result: Option<Told>,
    /// The styles.
    pub palette: Palette,
    /// The number of the first source on the screen.
    pub scrolled: usize,
    /// The number of rows that sources have on the screen.
    pub rows: usize,
}

/// A list over the whole screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its content.
    pub content: Content,
    /// The number of the first line on the screen.
    pub first: usize,
}

/// The content of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// All limits.
    Limits,
    /// The table of who sends.
    Senders(Vec<String>),
    /// The explanation of a flood.
    Explanation(Vec<String>),
}

impl Page {
    /// The beginning of a list.
    pub fn new(content: Content) -> Self {
        Self { content, first: 0 }
    }
}

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    /// A filter is typed.
    Filter(String),
    /// The time of a ban is typed.
    Time {
        /// The source to ban.
        source: String,
        /// The time as typed.
        text: String,
        /// The reason why it is no time.
        wrong: Option<String>,
    },
    /// A command is to be confirmed.
    Confirm {
        /// The command, without `limiter`.
        command: String,
        /// The danger of it.
        warning: Option<String>,
    },
    /// A command is under way.
    Waiting(String),
}

/// A text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The text.
    pub text: String,
    /// True if something failed.
    pub is_error: bool,
}

impl View {
    /// A view of this sample, with the most dropped sources first.
    pub fn new(sample: Sample, interval: Duration, palette: Palette) -> Self {
        Self {
            sample,
            interval,
            now: SystemTime::now(),
            order: Order::default(),
            reversed: false,
            filter: String::new(),
            paused: false,
            all_limits: false,
            page: None,
            help: false,
            has_others: false,
            dialog: None,
            result: None,
            palette,
            scrolled: 0,
            rows: 1,
        }
    }
}
