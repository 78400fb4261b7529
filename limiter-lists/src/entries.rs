//! The entries of a list, of which there may be millions.

use std::net::{IpAddr, Ipv4Addr};

use crate::{
    list::{Entry, Place},
    range::Range,
};

/// Entries in the order of the list. One of IPv4 that has no more than its addresses takes 12 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    short: Vec<Short>,
    /// All others, each with the number of entries in front of it.
    others: Vec<(usize, Entry)>,
}

/// An entry of IPv4 that has no end and no bits behind its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Short {
    /// The number of the line or of the element. That of an element has [`ELEMENT`].
    place: u32,
    first: u32,
    last: u32,
}

const ELEMENT: u32 = 1 << 31;

impl Short {
    fn new(entry: &Entry) -> Option<Self> {
        let (number, bit) = match entry.place {
            Place::Line(number) => (number, 0),
            Place::Element(number) => (number, ELEMENT),
        };
        match (entry.range.first(), entry.range.last()) {
            (IpAddr::V4(first), IpAddr::V4(last))
                if number < ELEMENT && !entry.has_host_bits && entry.ends_in.is_none() =>
            {
                Some(Self {
                    place: number | bit,
                    first: first.to_bits(),
                    last: last.to_bits(),
                })
            }
            _ => None,
        }
    }

    fn entry(self) -> Entry {
        let number = self.place & !ELEMENT;
        let [first, last] = [self.first, self.last].map(Ipv4Addr::from_bits);
        Entry {
            place: match self.place & ELEMENT {
                0 => Place::Line(number),
                _ => Place::Element(number),
            },
            range: Range::of_ipv4(first, last),
            has_host_bits: false,
            ends_in: None,
        }
    }
}

impl Entries {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.short.len() + self.others.len()
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = Entry> + Clone {
        let (mut short, mut others) = (self.short.iter(), self.others.iter().peekable());
        (0..self.len()).filter_map(move |number| {
            match others.next_if(|(before, _)| *before == number) {
                Some((_, entry)) => Some(*entry),
                None => short.next().map(|short| short.entry()),
            }
        })
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        match Short::new(&entry) {
            Some(short) => self.short.push(short),
            None => self.others.push((self.len(), entry)),
        }
    }
}

impl FromIterator<Entry> for Entries {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let mut all = Self::default();
        entries.into_iter().for_each(|entry| all.push(entry));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn entries_come_back_in_their_order() {
        let range = |first: &str, last: &str| {
            Range::new(first.parse().unwrap(), last.parse().unwrap()).unwrap()
        };
        let mut all = Vec::new();
        for number in [1, 2, ELEMENT - 1, ELEMENT, u32::MAX] {
            for place in [Place::Line(number), Place::Element(number)] {
                for range in [
                    range("192.0.2.0", "192.0.2.9"),
                    range("2001:db8::", "2001:db8::9"),
                    range("0.0.0.0", "255.255.255.255"),
                ] {
                    for (has_host_bits, ends_in) in [
                        (false, None),
                        (true, None),
                        (false, Some(Duration::from_secs(9))),
                    ] {
                        all.push(Entry {
                            place,
                            range,
                            has_host_bits,
                            ends_in,
                        });
                    }
                }
            }
        }
        let entries: Entries = all.iter().copied().collect();
        assert!(entries.iter().eq(all.iter().copied()), "{entries:?}");
        assert_eq!(entries.len(), all.len());
        assert_eq!(size_of::<Short>(), 12);
        let short: Vec<_> = entries.short.iter().map(|short| short.entry()).collect();
        assert_eq!(short.len(), 3 * 2 * 2, "{short:?}");
    }
}
