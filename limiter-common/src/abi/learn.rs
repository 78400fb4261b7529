//! Data that the program of `learn` sends to user space.
//!
//! Every type is `repr(C)`, of 32- and 64-bit words, without padding. No type is pinned: each build may change them.

use crate::{
    abi::{counters::Count, rules::ANY},
    policy::PacketInfo,
    table::{
        Seed,
        key::{KeyMask, SourceKey, Words},
    },
};

/// Key of a source: an IPv4 address, or the /64 of an IPv6 address, as in a limit's default key.
pub const MASK: KeyMask = KeyMask::prefixes(32, 64);

/// Number of a protocol that cannot be seen: behind too many extension headers, or truncated. No transport protocol has
/// this number.
pub const HIDDEN: u32 = 255;

/// Packets of one source to one service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct Flow {
    /// The masked source address, in network byte order.
    pub address: Words,
    /// Family (4 or 6) in bits 0-7, transport protocol in bits 8-15, destination port (0 if there is none) in bits
    /// 16-31.
    pub scope: u32,
    /// 1: TCP segments that open a connection.
    pub opens: u32,
}

impl Flow {
    /// Builds a flow from its parts.
    #[must_use]
    #[inline(always)]
    pub const fn new(address: Words, family: u32, protocol: u32, port: u16, opens: bool) -> Self {
        Self {
            address,
            scope: family | (protocol << 8) | ((port as u32) << 16),
            opens: opens as u32,
        }
    }

    /// The flow of a packet.
    #[must_use]
    #[inline(always)]
    pub const fn of(packet: &PacketInfo) -> Self {
        /// Flags that tell whether a segment opens a connection: FIN, SYN, RST, ACK.
        const COMPARED: u32 = 1 | SYN | 4 | 16;
        const SYN: u32 = 2;
        const TCP: u32 = 6;

        let family = packet.source.family;
        let (_, masked) = MASK.masked(&packet.source);
        if packet.protocol == ANY {
            return Self::new(masked, family, HIDDEN, 0, false);
        }
        // NONE and ANY have more of these bits set.
        let opens = packet.protocol == TCP && packet.flags & COMPARED == SYN;
        Self::new(masked, family, packet.protocol, packet.key_port(), opens)
    }

    /// The source without its service: equal for all its flows.
    #[must_use]
    pub const fn source(&self) -> Self {
        Self {
            address: self.address,
            scope: self.family(),
            opens: 0,
        }
    }

    /// The family of the address: 4 or 6.
    #[must_use]
    pub const fn family(&self) -> u32 {
        self.scope & 0xff
    }

    /// Number of the transport protocol; [`HIDDEN`] if it cannot be seen.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "of eight bits")]
    pub const fn protocol(&self) -> u8 {
        (self.scope >> 8) as u8
    }

    /// The destination port; 0 if there is none.
    #[must_use]
    pub const fn port(&self) -> u16 {
        (self.scope >> 16) as u16
    }
}

/// One packet of a source in the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sighting {
    /// Arrival time of the packet, in nanoseconds of the kernel's monotonic clock.
    pub nanoseconds: u64,
    /// The flow that the packet belongs to.
    pub flow: Flow,
    /// Bytes of the frame.
    pub length: u32,
    /// Makes the size a multiple of eight without padding.
    pub reserved: u32,
}

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
    /// Packets that are not IP; not part of `seen`.
    pub not_ip: Count,
}

/// The sample of sources. User space changes it while the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sample {
    /// The secret seed of each source's number.
    pub seed: Seed,
    /// The greatest number of a source in the sample.
    pub threshold: u64,
    /// 1: packets of some flows are counted, but not sent.
    pub muted: u64,
}

impl Sample {
    /// Samples one of `1 << halvings` sources by `seed`. A larger sample contains each smaller one.
    #[must_use]
    pub const fn one_in(halvings: u32, seed: Seed) -> Self {
        Self {
            seed,
            threshold: u64::MAX >> halvings,
            muted: 0,
        }
    }

    /// Whether the source of `flow` is in the sample.
    #[must_use]
    pub const fn has(&self, flow: &Flow) -> bool {
        let key = SourceKey::new(flow.family(), flow.address, 0, 0);
        self.seed.mixed(&key) <= self.threshold
    }
}

const _: () = assert!(size_of::<Flow>() == 24);
const _: () = assert!(size_of::<Sighting>() == 8 + 24 + 8);
const _: () = assert!(size_of::<Totals>() == 4 * 16);
const _: () = assert!(size_of::<Sample>() == 32 + 2 * 8);
