//! The sets that a source may be in: a keyed hash spreads the sources over the table.

use super::key::Tag;

/// Entries of a set: a cache line. With two entries of 32 bytes it has all that a packet of a known source
/// needs, counters included.
pub const WAYS: u32 = 2;

/// Sets that stand side by side: processors fetch two lines at a time.
pub const SETS_OF_PAIR: u32 = 2;

/// Entries of a pair.
pub const ENTRIES_OF_PAIR: u32 = SETS_OF_PAIR * WAYS;

/// Pairs of sets that a source may be in.
const PAIRS_OF_SOURCE: u32 = 16;

/// Sets that a source may be in. Until about 85 % of the entries are in use, one of tens of thousands of new
/// sources finds no room; between 90 and 95 % it is one of 25.
pub const SETS_OF_SOURCE: u32 = PAIRS_OF_SOURCE * SETS_OF_PAIR;

/// The secret that assigns sources to sets. Without it, an attacker cannot fill a set on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Seed(pub [u64; 4]);

impl Seed {
    /// A public seed, for tests and for tables that are not attacked: digits of pi.
    pub const KNOWN: Self = Self::new([
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ]);

    /// From random bits.
    #[must_use]
    pub const fn new([a, b, c, d]: [u64; 4]) -> Self {
        // Odd: multiplying by them loses nothing.
        Self([a, b | 1, c | 1, d | 1])
    }

    /// The sets of a source, of a table of `sets`.
    #[must_use]
    #[inline(always)]
    pub const fn home(&self, tag: &Tag, sets: u32) -> Home {
        let mixed = self.mixed(tag);
        Home {
            set: scaled(mixed >> 32, sets),
            mixed,
            sets,
        }
    }

    /// 64 bits that cannot be guessed without the seed; the higher bits are better.
    #[must_use]
    #[inline(always)]
    pub const fn mixed(&self, tag: &Tag) -> u64 {
        let [mask, first, second, third] = self.0;
        // Turned round: a sum of both halves would be the same for hosts that count up in networks that do,
        // and for two keys that differ in the highest bits alone, whatever the seed.
        let rest = tag.rest.wrapping_mul(third).swap_bytes();
        let mut mixed = (tag.address ^ mask).wrapping_mul(first).wrapping_add(rest);
        mixed ^= mixed >> 32;
        mixed = (mixed ^ tag.scope).wrapping_mul(second);
        // Without this turn one seed of some hundreds puts most networks in a row into few sets.
        (mixed ^ (mixed >> 32)).wrapping_mul(third)
    }
}

/// 32 bits, scaled to a number below `sets`.
#[inline(always)]
const fn scaled(bits: u64, sets: u32) -> u32 {
    ((bits * sets as u64) >> 32) as u32
}

/// The home set of a source, and the start of its probe sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its own set.
    pub set: u32,
    mixed: u64,
    sets: u32,
}

impl Home {
    /// Its sets in the order in which they are looked at: its own, the one beside it, and then pairs that
    /// follow one another at a distance of its own. Some come again where the table is small.
    #[inline(always)]
    pub const fn places(&self) -> Places {
        let pairs = self.sets / SETS_OF_PAIR;
        // Other bits than those that chose the set. Odd, because the number of pairs is mostly a power of
        // two: with a step that divides it the same few would come again and again.
        let bits = (self.mixed ^ (self.mixed >> 29)) & 0xffff_ffff;
        Places {
            pair: self.set / SETS_OF_PAIR,
            side: self.set % SETS_OF_PAIR,
            step: 1 + 2 * scaled(bits, pairs / 2),
            pairs,
        }
    }

    /// The numbers of its sets in that order.
    pub fn sets(&self) -> impl Iterator<Item = u32> {
        let mut places = self.places();
        (0..SETS_OF_SOURCE).map(move |place| places.set(place))
    }
}

/// The sets of a source, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    pair: u32,
    side: u32,
    step: u32,
    pairs: u32,
}

impl Places {
    /// The set that stands at `place`, of which there are [`SETS_OF_SOURCE`]; asked for in their order.
    #[inline(always)]
    pub const fn set(&mut self, place: u32) -> u32 {
        if place > 0 && place.is_multiple_of(SETS_OF_PAIR) {
            // Both are below 2^31.
            let next = self.pair + self.step;
            self.pair = if next >= self.pairs {
                next - self.pairs
            } else {
                next
            };
        }
        let side = self.side ^ (place % SETS_OF_PAIR);
        self.pair * SETS_OF_PAIR + side
    }
}
