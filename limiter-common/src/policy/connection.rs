//! What a CPU remembers of its lookups among the host's sockets. A lookup costs more than all other work on a packet, and
//! most packets belong to a flow that has just had one.

use super::PacketInfo;
use crate::table::key::Words;

/// Lookups that a CPU remembers.
pub const LOOKUPS: u32 = 2 << PLACES_BITS;
const PLACES_BITS: u32 = 11;

/// Nanoseconds for which a lookup is remembered. Then a closed connection is exempt no longer.
pub const KNOWN_FOR: u64 = 100_000_000;

const UDP: u32 = 17;

/// A lookup among the host's sockets: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lookup {
    /// Source and destination.
    pub addresses: [Words; 2],
    /// Ports, protocol and family.
    pub flow: u64,
    /// `jiffies` at the lookup; 0: none.
    pub jiffy: u64,
    /// 1: a socket is connected to the sender.
    pub connected: u64,
    /// 1: the flow is of UDP.
    pub udp: u64,
}

impl Lookup {
    /// The lookup of a packet's connection, in vain so far.
    #[must_use]
    #[inline(always)]
    pub const fn of(info: &PacketInfo, jiffy: u64) -> Self {
        Self {
            addresses: [info.source.words, info.destination.words],
            flow: info.flow() | info.source.family as u64,
            jiffy,
            connected: 0,
            udp: (info.protocol == UDP) as u64,
        }
    }

    /// Number of the place in which the lookup is remembered, below [`LOOKUPS`]. Places of UDP are apart: a flood of made-up
    /// ports must not replace connections of TCP.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "of twelve bits")]
    pub const fn place(&self) -> u32 {
        /// 2^64 divided by the golden ratio: spreads close numbers.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let [first, second] = self.addresses[0];
        let mixed = (first ^ second ^ self.flow).wrapping_mul(SPREAD);
        (self.udp << PLACES_BITS | mixed >> (u64::BITS - PLACES_BITS)) as u32
    }

    /// Whether `known` is a lookup of the same flow, and so recent that no new one is needed. `tick`: nanoseconds of a
    /// jiffy.
    #[must_use]
    #[inline(always)]
    pub const fn is_known(&self, known: &Self, tick: u64) -> bool {
        let [[a, b], [c, d]] = self.addresses;
        let [[e, f], [g, h]] = known.addresses;
        let differs = a ^ e | b ^ f | c ^ g | d ^ h | self.flow ^ known.flow;
        differs == 0 && self.jiffy.wrapping_sub(known.jiffy).wrapping_mul(tick) < KNOWN_FOR
    }

    /// Whether the lookup is worth remembering. A lookup of TCP in vain is not: the next segment may complete the
    /// handshake.
    #[must_use]
    #[inline(always)]
    pub const fn is_lasting(&self) -> bool {
        self.connected | self.udp != 0
    }
}
