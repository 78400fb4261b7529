//! In mode tc, a merged packet is charged at least as the packets that it is on the wire, in packets and in bytes; and
//! exactly those where its headers are known.

mod computed;
mod tunnels;
mod wire;

/// Number and bytes of packets.
pub type Size = (u64, u64);
