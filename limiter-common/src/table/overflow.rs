//! The count of a set's sources in overflow sets, in one byte.

use super::SETS_OF_PAIR;

/// Bits of the count, and bits of the furthest pair.
const OVERFLOW_BITS: u32 = 4;
const OVERFLOW_MASK: u64 = (1 << OVERFLOW_BITS) - 1;
/// Bits of an [`Overflow`]: one byte.
pub const OVERFLOW_WIDTH: u32 = 2 * OVERFLOW_BITS;

/// The count of a set's sources in overflow sets, and the furthest pair that one of them is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflow(pub u64);

impl Overflow {
    /// Reads the byte at `shift` of a word that several sets share.
    #[inline(always)]
    pub const fn in_word(word: u64, shift: u32) -> Self {
        Self(word >> shift & ((1 << OVERFLOW_WIDTH) - 1))
    }

    /// Returns `word` with this byte at `shift`.
    #[inline(always)]
    pub const fn put_into(self, word: u64, shift: u32) -> u64 {
        let mask = ((1 << OVERFLOW_WIDTH) - 1) << shift;
        (word & !mask) | (self.0 << shift)
    }

    /// The count of the set's sources in overflow sets: exact or too high, never too low.
    #[inline(always)]
    pub const fn count(self) -> u64 {
        self.0 & OVERFLOW_MASK
    }

    /// The furthest pair in the probe sequence that has a source of the set; 0 is the home set's pair.
    #[inline(always)]
    const fn furthest(self) -> u32 {
        (self.0 >> OVERFLOW_BITS & OVERFLOW_MASK) as u32
    }

    /// True if a source may be in the set at `distance`.
    #[inline(always)]
    pub const fn reaches(self, distance: u32) -> bool {
        distance == 0 || (self.count() > 0 && distance / SETS_OF_PAIR <= self.furthest())
    }

    /// Adds a source in the set at `distance`. None if the count is at its maximum.
    #[inline(always)]
    pub const fn with_one_more(self, distance: u32) -> Option<Self> {
        if self.count() == OVERFLOW_MASK {
            return None;
        }
        let pair = distance / SETS_OF_PAIR;
        let furthest = if self.count() > 0 && self.furthest() > pair {
            self.furthest()
        } else {
            pair
        };
        Some(Self(
            (self.count() + 1) | ((furthest as u64) << OVERFLOW_BITS),
        ))
    }
}
