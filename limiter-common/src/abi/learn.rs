//! Data that the program of `learn` sends to user space.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding. No type is pinned: each build may change them.

use crate::{
    abi::counters::Count,
    pod::pod,
    policy::PacketInfo,
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

/// The service that a packet is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Service {
    /// The transport protocol; [`ANY`](super::rules::ANY) if it cannot be seen.
    pub protocol: u32,
    /// The destination port, [`NONE`](super::rules::NONE) or [`ANY`](super::rules::ANY).
    pub port: u32,
}

pod!(Service: protocol port);

impl Service {
    /// The service that the packet is for.
    #[inline(always)]
    pub const fn of(info: &PacketInfo) -> Self {
        Self {
            protocol: info.protocol,
            port: info.destination_port,
        }
    }
}

/// The number of ports: elements of the map of ports to which segments came that follow a handshake.
pub const PORTS: u32 = 1 << 16;

/// One packet of a source in the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sighting {
    /// Arrival time of the packet, in nanoseconds of the kernel's monotonic clock.
    pub nanoseconds: u64,
    /// The source, from [`source_of`].
    pub source: Address,
    /// The service that the packet is for.
    pub service: Service,
}

pod!(Sighting: nanoseconds source service);

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
    /// Packets of `seen` that are exempt: of the host's own connections.
    pub connections: Count,
    /// Packets of `seen` that are exempt: control traffic.
    pub control: Count,
}

pod!(Totals: seen lost malformed connections control);

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
