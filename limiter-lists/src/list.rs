//! The content of a list: its entries, and what was left out.

use std::{fmt, time::Duration};

use crate::{address::Addresses, entries::Entries, format::Format, range::Range, reason::Reason};

/// Examples per reason.
const EXAMPLES: usize = 5;

/// The longest text of an example, in characters. It quotes the list, which must not fill logs.
const LONGEST: usize = 60;

/// The place of an entry in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line, from 1.
    Line(u32),
    /// The field of a JSON document, of those that are read, from 1.
    Element(u32),
}

impl fmt::Display for Place {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Line(number) => write!(text, "line {number}"),
            Self::Element(number) => write!(text, "element {number}"),
        }
    }
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub place: Place,
    /// Its addresses.
    pub range: Range,
    /// True if it was a prefix with bits set behind its length: the range is that of the network.
    pub has_host_bits: bool,
    /// Time after which the entry ends, from the time at which the list was written.
    pub ends_in: Option<Duration>,
}

/// A part of a list that is no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Its place.
    pub place: Place,
    /// Its text, shortened, without control characters.
    pub text: String,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for Example {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        write!(text, "{}, '{}'", self.place, self.text)
    }
}

/// The parts of a list that are no entries, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    counts: [u64; Reason::ALL.len()],
    /// The first ones of each reason, in the order of the list.
    pub examples: Vec<Example>,
}

impl LeftOut {
    /// Number of those with a reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// Number of those that were not understood.
    pub fn mistakes(&self) -> u64 {
        let all = Reason::ALL.into_iter().filter(|reason| reason.is_mistake());
        all.map(|reason| self.count(reason)).sum()
    }

    /// The first one with a reason.
    pub fn first(&self, reason: Reason) -> Option<&Example> {
        self.examples
            .iter()
            .find(|example| example.reason == reason)
    }

    fn add(&mut self, place: Place, reason: Reason, text: &str) {
        let count = &mut self.counts[reason as usize];
        *count += 1;
        if *count <= EXAMPLES as u64 {
            let text = shortened(text);
            self.examples.push(Example {
                place,
                text,
                reason,
            });
        }
    }
}

/// A text of bounded length without control characters.
pub(crate) fn shortened(text: &str) -> String {
    let shown = text
        .trim()
        .chars()
        .map(|character| match character.is_control() {
            true => ' ',
            false => character,
        });
    let mut shown: String = shown.take(LONGEST + 1).collect();
    if let Some((end, _)) = shown.char_indices().nth(LONGEST) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The entries, in the order of the list.
    pub entries: Entries,
    /// The parts that are no entries.
    pub left_out: LeftOut,
    /// The format.
    pub format: Format,
    /// The reason why it has this format, in words.
    pub why: String,
    /// The option that may read it otherwise, in words, if most lines were not understood.
    pub advice: Option<String>,
}

impl List {
    /// A list without entries.
    pub(crate) fn new(format: Format, why: impl Into<String>) -> Self {
        Self {
            entries: Entries::default(),
            left_out: LeftOut::default(),
            format,
            why: why.into(),
            advice: None,
        }
    }

    /// Adds an entry, or leaves it out. `text`: as the list has it.
    pub(crate) fn add(&mut self, place: Place, read: Result<Addresses, Reason>, text: &str) {
        self.add_until(place, read, text, None);
    }

    /// Adds an entry with an end, or leaves it out.
    pub(crate) fn add_until(
        &mut self,
        place: Place,
        read: Result<Addresses, Reason>,
        text: &str,
        ends_in: Option<Duration>,
    ) {
        match read {
            Err(reason) => self.left_out.add(place, reason, text),
            Ok(addresses) => self.entries.push(Entry {
                place,
                range: addresses.range,
                has_host_bits: addresses.has_host_bits,
                ends_in,
            }),
        }
    }

    /// Takes addresses that the list excludes out of the entries around them.
    pub(crate) fn exclude(&mut self, excluded: &[Range]) {
        for part in excluded {
            let (around, mut rest): (Vec<_>, Vec<_>) = self
                .entries
                .iter()
                .partition(|entry| entry.range.is_around(part));
            for entry in around {
                rest.extend(
                    entry
                        .range
                        .without(part)
                        .map(|range| Entry { range, ..entry }),
                );
            }
            self.entries = rest.into_iter().collect();
        }
    }
}
