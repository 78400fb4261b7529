//! What a CPU remembers of the host's connections. A lookup among the host's sockets costs more than all other work on
//! a packet, and most packets belong to a connection that has just had one.

use super::PacketInfo;
use crate::table::key::Words;

/// Connections that a CPU remembers.
pub const CONNECTIONS: u32 = 1 << CONNECTIONS_BITS;
const CONNECTIONS_BITS: u32 = 10;

/// Nanoseconds for which a connection is remembered after its lookup. Then a closed connection is exempt no longer.
pub const KNOWN_FOR: u64 = 100_000_000;

/// A connection that was found among the host's sockets: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Connection {
    /// Source and destination.
    pub addresses: [Words; 2],
    /// Ports, protocol and family.
    pub flow: u64,
    /// `jiffies` at the lookup; 0: none.
    pub jiffy: u64,
    /// 0: fills the cache line.
    pub reserved: [u64; 2],
}

impl Connection {
    /// The connection that the packet would belong to.
    #[must_use]
    #[inline(always)]
    pub const fn of(info: &PacketInfo, jiffy: u64) -> Self {
        Self {
            addresses: [info.source.words, info.destination.words],
            flow: info.flow() | info.source.family as u64,
            jiffy,
            reserved: [0; 2],
        }
    }

    /// Number of the place in which the connection is remembered, below [`CONNECTIONS`]. A sender who chooses addresses
    /// for one place gains nothing: only real connections replace others.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "of ten bits")]
    pub const fn place(&self) -> u32 {
        /// 2^64 divided by the golden ratio: spreads close numbers.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let [first, second] = self.addresses[0];
        let mixed = (first ^ second ^ self.flow).wrapping_mul(SPREAD);
        (mixed >> (u64::BITS - CONNECTIONS_BITS)) as u32
    }

    /// Whether `known` is this connection, and was found so recently that it needs no new lookup. `tick`: nanoseconds
    /// of a jiffy.
    #[must_use]
    #[inline(always)]
    pub const fn is_known(&self, known: &Self, tick: u64) -> bool {
        let [[a, b], [c, d]] = self.addresses;
        let [[e, f], [g, h]] = known.addresses;
        let differs = a ^ e | b ^ f | c ^ g | d ^ h | self.flow ^ known.flow;
        differs == 0 && self.jiffy.wrapping_sub(known.jiffy).wrapping_mul(tick) < KNOWN_FOR
    }
}
