//! Data that the program of `learn` sends to user space.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding. No type is pinned: each build may change them.

use crate::{
    abi::counters::Count,
    pod::pod,
    table::{
        Seed,
        key::{Address, KeyMask, SourceKey},
        nat64::Nat64,
    },
};

/// The source of a packet from `address`: an IPv4 address, or the /64 of an IPv6 address, as in a limit's default key. Behind
/// the well-known prefix of NAT64 it is the whole address.
#[inline(always)]
pub const fn source_of(address: &Address) -> Address {
    const MASK: KeyMask = KeyMask::prefixes(32, 64);
    let (family, words) = MASK.masked(address, &Nat64::WELL_KNOWN);
    Address {
        words,
        family,
        reserved: 0,
    }
}

/// One packet of a source in the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sighting {
    /// Arrival time of the packet, in nanoseconds of the kernel's monotonic clock.
    pub nanoseconds: u64,
    /// The source, from [`source_of`].
    pub source: Address,
}

pod!(Sighting: nanoseconds source);

/// Counters of one CPU. Only that CPU writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Totals {
    /// IP packets, of all sources.
    pub seen: Count,
    /// Packets of sources in the sample that did not fit into the ring buffer.
    pub lost: Count,
    /// Malformed IP packets; not part of `seen`.
    pub malformed: Count,
}

pod!(Totals: seen lost malformed);

/// The sample of sources. User space changes it while the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sample {
    /// The secret seed of each source's number.
    pub seed: Seed,
    /// The greatest number of a source in the sample.
    pub threshold: u64,
    /// 1: packets of some sources are counted, but not sent.
    pub muted: u64,
}

pod!(Sample: seed threshold muted);

impl Sample {
    /// Samples one of `1 << halvings` sources by `seed`. A larger sample contains each smaller one.
    pub const fn one_in(halvings: u32, seed: Seed) -> Self {
        Self {
            seed,
            threshold: u64::MAX >> halvings,
            muted: 0,
        }
    }

    /// True if `source` is in the sample.
    #[inline(always)]
    pub const fn has(&self, source: &Address) -> bool {
        let key = SourceKey::new(source.family, source.words, 0, 0);
        self.seed.mixed(&key) <= self.threshold
    }
}
