//! The index of lists: all prefixes of a configuration as ranges of addresses that do not overlap, in one array of words.
//!
//! A table of slots divides the addresses between the first and the last listed one evenly. The slot of an address has a
//! window of ranges, in which a binary search finds the range. The range has the number of a record: the lists that decide
//! about its addresses.

#![expect(clippy::cast_possible_truncation, reason = "words have two halves")]

use crate::{pod::pod, table::key::Words};

/// An array of words with an index.
pub trait Array {
    /// The word with this number; none behind the end.
    fn word(&self, number: u32) -> Option<u64>;
}

/// The ranges of one family. Places are numbers of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ranges {
    /// The first listed address; of IPv6, its first half.
    pub first: u64,
    /// Distance from it to the last listed address.
    pub span: u64,
    /// Place of the slots. Each word has two.
    pub slots: u32,
    /// Place of the ranges' first addresses, in order.
    pub bounds: u32,
    /// Place of the values of IPv6 ranges. Those of IPv4 are in the lower halves of their bounds.
    pub values: u32,
    /// Addresses of a slot, as a power of two.
    pub shift: u32,
}

pod!(Ranges: first span slots bounds values shift);

/// The parts of an index. The words of it are the first ones of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Index {
    /// The ranges of IPv4.
    pub ipv4: Ranges,
    /// The ranges of IPv6.
    pub ipv6: Ranges,
    /// Place of the records, which are [`crate::abi::Listed::record`]. The first one is that of no list.
    pub records: u32,
    /// Place of the prefixes themselves, for user space only.
    pub prefixes: u32,
}

pod!(Index: ipv4 ipv6 records prefixes);

/// Words of an [`Index`].
pub const HEADER: usize = size_of::<Index>() / size_of::<u64>();

/// Bits of a slot that hold the number of steps of its search. The others hold the place of its window among the bounds.
pub const STEPS_BITS: u32 = 5;

/// The most bounds of a family: as many as a slot can tell apart.
pub const BOUNDS_MAX: usize = 1 << (u32::BITS - STEPS_BITS);

/// Bit of the value of an IPv6 range that is one /64 with longer prefixes. The bits below tell where it continues, with
/// bounds that are the second halves of addresses: number of steps, place of the window among the bounds.
pub const DEEPER: u64 = 1 << 63;

const HALF: u32 = u32::BITS;

impl Index {
    /// The index in the first words of an array.
    pub fn read(array: &impl Array) -> Option<Self> {
        let mut next = 0;
        let mut word = || {
            next += 1;
            array.word(next - 1)
        };
        let mut ranges = || {
            let (first, span) = (word()?, word()?);
            let (slots, bounds) = halves(word()?);
            let (values, shift) = halves(word()?);
            Some(Ranges {
                first,
                span,
                slots,
                bounds,
                values,
                shift,
            })
        };
        let (ipv4, ipv6) = (ranges()?, ranges()?);
        let (records, prefixes) = halves(word()?);
        Some(Self {
            ipv4,
            ipv6,
            records,
            prefixes,
        })
    }

    /// The words of the index: the inverse of [`Self::read`].
    pub fn words(&self) -> [u64; HEADER] {
        let [four, six] = [&self.ipv4, &self.ipv6].map(|ranges| {
            [
                ranges.first,
                ranges.span,
                joined(ranges.slots, ranges.bounds),
                joined(ranges.values, ranges.shift),
            ]
        });
        let mut words = [0; HEADER];
        words[..4].copy_from_slice(&four);
        words[4..8].copy_from_slice(&six);
        words[8] = joined(self.records, self.prefixes);
        words
    }

    /// The record of an IPv4 address; 0: it is on no list.
    #[inline(always)]
    pub fn ipv4(&self, array: &impl Array, address: &Words) -> u64 {
        let address = ipv4_of(address);
        let Some(window) = self.ipv4.window(array, address.into()) else {
            return 0;
        };
        // The value in the lower half of a bound does not matter.
        let last = joined(u32::MAX, address);
        let place = search(array, self.ipv4.bounds, window, last);
        self.record(array, array.word(place).unwrap_or(0) as u32)
    }

    /// The record of an IPv6 address; 0: it is on no list.
    #[inline(always)]
    pub fn ipv6(&self, array: &impl Array, address: &Words) -> u64 {
        let ranges = &self.ipv6;
        let [first, second] = *address;
        let first = u64::from_be(first);
        let Some(window) = ranges.window(array, first) else {
            return 0;
        };
        let values = ranges.values.wrapping_sub(ranges.bounds);
        let place = search(array, ranges.bounds, window, first);
        let mut value = array.word(place.wrapping_add(values)).unwrap_or(0);
        if value & DEEPER != 0 {
            let place = search(array, ranges.bounds, value as u32, u64::from_be(second));
            value = array.word(place.wrapping_add(values)).unwrap_or(0);
        }
        self.record(array, value as u32)
    }

    #[inline(always)]
    fn record(&self, array: &impl Array, number: u32) -> u64 {
        match number {
            // Most sources are on no list.
            0 => 0,
            _ => array.word(self.records.wrapping_add(number)).unwrap_or(0),
        }
    }
}

impl Ranges {
    /// The window of the slot of an address; none if the address is outside of all listed ones.
    #[inline(always)]
    fn window(&self, array: &impl Array, address: u64) -> Option<u32> {
        let distance = address.wrapping_sub(self.first);
        if distance > self.span {
            return None;
        }
        let slot = distance.wrapping_shr(self.shift) as u32;
        let both = array.word(self.slots.wrapping_add(slot >> 1))?;
        Some((both >> ((slot & 1) * HALF)) as u32)
    }
}

/// A window: its place among the bounds, and the steps of a search in it.
pub const fn window(place: u32, steps: u32) -> u32 {
    place << STEPS_BITS | steps
}

/// Place of the last bound of a window that is no higher than `key`. The first bound of a window is one.
#[inline(always)]
fn search(array: &impl Array, bounds: u32, window: u32, key: u64) -> u32 {
    const STEPS: u32 = (1 << STEPS_BITS) - 1;
    let mut place = bounds.wrapping_add(window >> STEPS_BITS);
    let mut width = (1_u32 << (window & STEPS)) >> 1;
    while width != 0 {
        let middle = place.wrapping_add(width);
        if array.word(middle).is_some_and(|bound| bound <= key) {
            place = middle;
        }
        width >>= 1;
    }
    place
}

/// The IPv4 address in its words, in the host's byte order.
#[inline(always)]
const fn ipv4_of(address: &Words) -> u32 {
    let [first, _] = *address;
    if cfg!(target_endian = "big") {
        (first >> HALF) as u32
    } else {
        u32::from_be(first as u32)
    }
}

/// A word of two halves, the lower one first.
#[inline(always)]
pub const fn joined(lower: u32, upper: u32) -> u64 {
    (upper as u64) << HALF | lower as u64
}

/// The halves of a word, the lower one first.
#[inline(always)]
pub const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> HALF) as u32)
}
