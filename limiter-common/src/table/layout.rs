//! The home set and the probe sequence of a source.

use super::key::SourceKey;
use crate::pod::pod;

/// Entries of a set. Two entries of 32 bytes fill one cache line, so that a packet of a known source needs one line.
pub const WAYS: u32 = 2;

/// Adjacent sets that form a pair: processors fetch two cache lines at a time.
pub const SETS_OF_PAIR: u32 = 2;

/// Entries of a pair.
pub const ENTRIES_OF_PAIR: u32 = SETS_OF_PAIR * WAYS;

/// Pairs of sets in a probe sequence.
pub const PAIRS_OF_SOURCE: u32 = 16;

/// Sets in a probe sequence. Up to about 85 % of the entries in use, one of tens of thousands of new sources finds no
/// room; between 90 and 95 %, one of 25.
pub const SETS_OF_SOURCE: u32 = PAIRS_OF_SOURCE * SETS_OF_PAIR;

/// The secret key of the hash. An attacker who does not know it cannot fill a chosen set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Seed(pub [u64; 4]);

pod!(Seed: 0);

impl Seed {
    /// A public seed (digits of pi), for tests and for tables that are not attacked.
    pub const KNOWN: Self = Self::new([
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ]);

    /// Creates a seed from random bits.
    pub const fn new([a, b, c, d]: [u64; 4]) -> Self {
        // Multiplication by an odd number loses no bits.
        Self([a, b | 1, c | 1, d | 1])
    }

    /// The home set of a source in a table of `sets` sets.
    #[inline(always)]
    pub const fn home(&self, key: &SourceKey, sets: u32) -> Home {
        let mixed = self.mixed(key);
        Home {
            set: scaled(mixed >> 32, sets),
            mixed,
            sets,
        }
    }

    /// 64 bits that cannot be guessed without the seed; the higher bits are better.
    #[inline(always)]
    pub const fn mixed(&self, key: &SourceKey) -> u64 {
        let [mask, first, second, third] = self.0;
        // Without the byte swap, hosts that count up in networks that count up would have equal sums, and keys that
        // differ only in their highest bits would be equal under every seed.
        let rest = key.rest.wrapping_mul(third).swap_bytes();
        let mut mixed = (key.first ^ mask).wrapping_mul(first).wrapping_add(rest);
        mixed ^= mixed >> 32;
        mixed = (mixed ^ key.scope).wrapping_mul(second);
        // Without this shift, one of some hundreds of seeds puts most consecutive networks into few sets.
        (mixed ^ (mixed >> 32)).wrapping_mul(third)
    }
}

/// Scales 32 bits to a number below `sets`.
#[inline(always)]
pub(crate) const fn scaled(bits: u64, sets: u32) -> u32 {
    ((bits * sets as u64) >> 32) as u32
}

/// The home set of a source, and the start of its probe sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Number of the home set.
    pub set: u32,
    mixed: u64,
    sets: u32,
}

impl Home {
    /// The probe sequence: the home set, the other set of its pair, then further pairs at a stride that depends on the
    /// source. In a small table, sets repeat.
    #[inline(always)]
    pub const fn probe_sequence(&self) -> ProbeSequence {
        let pairs = self.sets / SETS_OF_PAIR;
        // The stride uses other bits than the home set. It is odd, because the number of pairs is often a power of two:
        // a stride with a common divisor would visit few pairs.
        let bits = (self.mixed ^ (self.mixed >> 29)) & 0xffff_ffff;
        ProbeSequence {
            pair: self.set / SETS_OF_PAIR,
            side: self.set % SETS_OF_PAIR,
            stride: 1 + 2 * scaled(bits, pairs / 2),
            pairs,
        }
    }

    /// The numbers of the sets in the probe sequence.
    pub fn sets(&self) -> impl Iterator<Item = u32> {
        let mut sequence = self.probe_sequence();
        (0..SETS_OF_SOURCE).map(move |distance| sequence.set(distance))
    }
}

/// The sets in which a source is searched, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSequence {
    pair: u32,
    side: u32,
    stride: u32,
    pairs: u32,
}

impl ProbeSequence {
    /// The number of the set at `distance`, below [`SETS_OF_SOURCE`]. Call it with ascending distances: all of them, or
    /// only the even ones.
    #[inline(always)]
    pub const fn set(&mut self, distance: u32) -> u32 {
        if distance > 0 && distance.is_multiple_of(SETS_OF_PAIR) {
            // Both numbers are below 2^31.
            let next = self.pair + self.stride;
            self.pair = if next >= self.pairs {
                next - self.pairs
            } else {
                next
            };
        }
        let side = self.side ^ (distance % SETS_OF_PAIR);
        self.pair * SETS_OF_PAIR + side
    }
}
