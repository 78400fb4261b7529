//! Second chances: a new source that was refused, and comes again after a while, is admitted from a budget of its own.
//! A real client retransmits; a made-up address seldom comes twice.
//!
//! A refused source is remembered in one cache line: a part of its hash, and the time. The line keeps the last
//! [`KEPT`] sources. CPUs write without an order; a lost write costs one source its second chance.

use core::cell::Cell;

use crate::table::{
    Seed,
    key::{KeyMask, SourceKey},
    scaled,
};

/// The key under which the refusals of a packet with several limits are remembered.
pub const SOURCE: KeyMask = KeyMask::prefixes(32, 64);

/// Words of a line. The first is the index of the word that was written last.
pub const WORDS: u32 = 16;
/// Sources that a line remembers.
pub const KEPT: u32 = WORDS - 1;

/// The fewest lines: a small table must not forget at once.
const LINES_MIN: u32 = 1 << 10;
/// The most lines (4 MiB): the time that a source is remembered depends on the flood, not on the table.
const LINES_MAX: u32 = 1 << 16;

/// Bits of the time in a word; the hash is above them. The time wraps after 275 s.
const TIME_BITS: u32 = 12;
const TIME_MASK: u32 = (1 << TIME_BITS) - 1;
/// Shift from nanoseconds to the unit of the time, which is 67 ms.
const TIME_SHIFT: u32 = 26;

/// Units after which a packet is a retransmission and not a copy: at least 268 ms. TCP and QUIC repeat their first
/// packet after a second.
pub const GAP: u32 = 5;
/// Units after which a refusal is forgotten: 8.6 s. Resolvers repeat after 5 s, TCP after 4 s at the third time.
pub const OLDEST: u32 = 128;

/// Number of lines for a table of `sets` sets: one for each set, within bounds.
#[inline(always)]
pub const fn lines(sets: u32) -> u32 {
    if sets < LINES_MIN {
        LINES_MIN
    } else if sets > LINES_MAX {
        LINES_MAX
    } else {
        sets
    }
}

/// The time, in units, of a time in nanoseconds.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the bits that are kept")]
const fn units(now: u64) -> u32 {
    (now >> TIME_SHIFT) as u32 & TIME_MASK
}

/// A line that several CPUs use at the same time.
pub trait Line: Copy {
    /// Reads the word with this index, below [`WORDS`].
    fn load(self, index: u32) -> u32;
    /// Writes this word.
    fn store(self, index: u32, value: u32);
}

/// The place of a key's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the line.
    pub line: u32,
    /// The part of the hash, above the bits of the time.
    mark: u32,
}

/// A line that only one thread uses.
impl Line for &[Cell<u32>; WORDS as usize] {
    fn load(self, index: u32) -> u32 {
        self[index as usize].get()
    }

    fn store(self, index: u32, value: u32) {
        self[index as usize].set(value);
    }
}

impl Place {
    /// The place of `key` with a table of `sets` sets.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the bits that are kept")]
    pub const fn of(seed: &Seed, key: &SourceKey, sets: u32) -> Self {
        let mixed = seed.mixed(key);
        Self {
            line: scaled(mixed >> 32, lines(sets)),
            // Bits 24 to 43: the line depends on bits 48 to 63.
            mark: (mixed >> (24 - TIME_BITS)) as u32 & !TIME_MASK,
        }
    }

    /// Index of the word that remembers the key.
    #[inline(always)]
    fn find<L: Line>(self, line: L) -> Option<(u32, u32)> {
        let mut index = 1;
        while index < WORDS {
            let differs = line.load(index) ^ self.mark;
            if differs <= TIME_MASK {
                return Some((index, differs));
            }
            index += 1;
        }
        None
    }

    /// Nanoseconds since the source was refused, and until that is forgotten, if the line remembers it.
    pub fn times<L: Line>(self, line: L, now: u64) -> Option<(u64, u64)> {
        let (_, time) = self.find(line)?;
        let age = units(now).wrapping_sub(time) & TIME_MASK;
        let left = OLDEST.checked_sub(age)?;
        Some((u64::from(age) << TIME_SHIFT, u64::from(left) << TIME_SHIFT))
    }

    /// True if the source was refused [`GAP`] to [`OLDEST`] units before `now` (nanoseconds). Remembers a source that
    /// was not refused, or longer ago.
    #[inline(always)]
    pub fn was_refused<L: Line>(self, line: L, now: u64) -> bool {
        let time = units(now);
        let index = match self.find(line) {
            Some((index, before)) => {
                let age = time.wrapping_sub(before) & TIME_MASK;
                if age <= OLDEST {
                    return age >= GAP;
                }
                index
            }
            None => {
                let last = line.load(0);
                let next = if last < KEPT { last + 1 } else { 1 };
                line.store(0, next);
                next
            }
        };
        line.store(index, self.mark | time);
        false
    }
}
