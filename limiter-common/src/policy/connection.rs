//! The memory of a CPU for its lookups among the host's sockets. A lookup costs more than all other work on a packet, and
//! most packets belong to a flow that has just had one.

use super::{PacketInfo, protocols::UDP};
use crate::table::key::Words;

/// Lookups that a CPU remembers.
pub const LOOKUPS: u32 = 2 << PLACES_BITS;
const PLACES_BITS: u32 = 11;

/// Nanoseconds for which a lookup is remembered. Then a closed connection is exempt no longer.
pub const KNOWN_FOR: u64 = 100_000_000;

/// Value of [`Lookup::found`]: no socket gets the packet.
pub const NONE: u64 = 0;
/// Value of [`Lookup::found`]: the socket gets packets of any sender.
pub const UNCONNECTED: u64 = 1;
/// Value of [`Lookup::found`]: the socket is connected to the sender.
pub const CONNECTED: u64 = 2;

/// A lookup among the host's sockets, in 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Lookup {
    /// Source and destination.
    pub addresses: [Words; 2],
    /// Ports, protocol and family.
    pub flow: u64,
    /// `jiffies` at the lookup; 0: none.
    pub jiffy: u64,
    /// [`NONE`], [`UNCONNECTED`] or [`CONNECTED`].
    pub found: u64,
    /// 1: the flow is of UDP.
    pub udp: u64,
}

impl Lookup {
    /// The lookup of a packet's connection, in vain so far.
    #[inline(always)]
    pub const fn of(info: &PacketInfo, jiffy: u64) -> Self {
        Self {
            addresses: [info.source.words, info.destination.words],
            flow: info.flow() | info.source.family as u64,
            jiffy,
            found: NONE,
            udp: (info.protocol == UDP) as u64,
        }
    }

    /// Number of the place in which the lookup is remembered, below [`LOOKUPS`]. Places of UDP are apart: a flood of made-up
    /// ports must not replace connections of TCP.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "of twelve bits")]
    pub const fn place(&self) -> u32 {
        /// 2^64 divided by the golden ratio: spreads close numbers.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let [first, second] = self.addresses[0];
        let mixed = (first ^ second ^ self.flow).wrapping_mul(SPREAD);
        (self.udp << PLACES_BITS | mixed >> (u64::BITS - PLACES_BITS)) as u32
    }

    /// True if `known` is a lookup of the same flow, and so recent that no new one is needed. `tick`: nanoseconds of a
    /// jiffy.
    #[inline(always)]
    pub const fn is_known(&self, known: &Self, tick: u64) -> bool {
        let [[a, b], [c, d]] = self.addresses;
        let [[e, f], [g, h]] = known.addresses;
        let differs = a ^ e | b ^ f | c ^ g | d ^ h | self.flow ^ known.flow;
        differs == 0 && self.jiffy.wrapping_sub(known.jiffy).wrapping_mul(tick) < KNOWN_FOR
    }

    /// True if a socket is connected to the sender.
    #[inline(always)]
    pub const fn is_connected(&self) -> bool {
        self.found == CONNECTED
    }

    /// True if the lookup may be remembered: a connection, or a flow to a socket of UDP for any sender. Not without such a
    /// socket: otherwise an attacker could send in another's name to a port that the host is about to ask from. Nor for
    /// TCP: the next segment may complete the handshake.
    #[inline(always)]
    pub const fn is_lasting(&self) -> bool {
        self.found == CONNECTED || self.udp != 0 && self.found == UNCONNECTED
    }
}
