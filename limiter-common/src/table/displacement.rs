//! The data of a set about its sources that are in other sets.

use super::SETS_OF_PAIR;

/// Bits of the count of a set's sources in other sets, and bits of the greatest distance: one byte for both.
const DISPLACED_BITS: u32 = 4;
const DISPLACED_MASK: u64 = (1 << DISPLACED_BITS) - 1;
/// Bits of both.
pub const DISPLACED_WIDTH: u32 = 2 * DISPLACED_BITS;

/// The count of a set's sources in other sets, and the greatest distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Displaced(pub u64);

impl Displaced {
    /// The byte at `shift` of a word that several sets share.
    #[must_use]
    #[inline(always)]
    pub const fn in_word(word: u64, shift: u32) -> Self {
        Self(word >> shift & ((1 << DISPLACED_WIDTH) - 1))
    }

    /// The word with this in its place.
    #[must_use]
    #[inline(always)]
    pub const fn put_into(self, word: u64, shift: u32) -> u64 {
        let mask = ((1 << DISPLACED_WIDTH) - 1) << shift;
        (word & !mask) | (self.0 << shift)
    }

    /// The count of a set's sources in other sets: exact or too high, never too low.
    #[must_use]
    #[inline(always)]
    pub const fn count(self) -> u64 {
        self.0 & DISPLACED_MASK
    }

    /// The pair that the furthest of them is in, its own being 0.
    #[inline(always)]
    const fn furthest(self) -> u32 {
        (self.0 >> DISPLACED_BITS & DISPLACED_MASK) as u32
    }

    /// Whether a source may be in the set at this place.
    #[must_use]
    #[inline(always)]
    pub const fn reach(self, place: u32) -> bool {
        place == 0 || (self.count() > 0 && place / SETS_OF_PAIR <= self.furthest())
    }

    /// With one more source, in the set at this place. None if there is no room to count it.
    #[must_use]
    #[inline(always)]
    pub const fn and_one(self, place: u32) -> Option<Self> {
        if self.count() == DISPLACED_MASK {
            return None;
        }
        let pair = place / SETS_OF_PAIR;
        let furthest = if self.count() > 0 && self.furthest() > pair {
            self.furthest()
        } else {
            pair
        };
        Some(Self(
            (self.count() + 1) | ((furthest as u64) << DISPLACED_BITS),
        ))
    }
}
