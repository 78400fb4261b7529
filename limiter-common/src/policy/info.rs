//! The parsed fields of a packet.

use super::protocols;
use crate::{
    abi::rules::{ANY, LATER_FRAGMENT, NONE, WHOLE},
    pod::{Pod as _, pod},
    table::{key::Address, pair},
};

/// The fields of a packet that limits use.
///
/// The ports share an aligned word of eight bytes, because LLVM writes both at once, and the verifier requires such a
/// write to be aligned on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PacketInfo {
    /// Source; family 0 if there is none.
    pub source: Address,
    /// Destination; family 0 if there is none, or no limit uses it.
    pub destination: Address,
    /// Transport protocol, or [`ANY`] if it cannot be seen.
    pub protocol: u32,
    /// TCP flags, [`NONE`], or [`ANY`] if they cannot be seen.
    pub flags: u32,
    /// Source port, [`NONE`] or [`ANY`].
    pub source_port: u32,
    /// Destination port, [`NONE`] or [`ANY`].
    pub destination_port: u32,
    /// Place in the datagram: one bit of [`crate::abi::rules::ANYWHERE`], or all if it cannot be seen.
    pub fragment: u32,
    /// Bits as [`crate::abi::rules::CONTROL_LINK`]; 0: no control traffic.
    pub control: u32,
    /// Length of the IP packet from its header, in bytes, at most 65,535, or [`ANY`]; 0 if no limit uses it.
    pub length: u32,
    /// TTL or hop limit; 0 if no limit uses it.
    pub ttl: u32,
    /// DSCP; 0 if no limit uses it.
    pub dscp: u32,
    /// Type of an ICMP message, as in [`crate::abi::rules::ICMP_TYPE`], [`NONE`] or [`ANY`].
    pub icmp_type: u32,
}

pod!(PacketInfo: source destination protocol flags source_port destination_port fragment control length ttl dscp
    icmp_type);

impl PacketInfo {
    /// The fields of a packet with a known source and nothing else.
    #[inline(always)]
    pub const fn of(source: Address) -> Self {
        Self {
            source,
            protocol: ANY,
            flags: ANY,
            source_port: ANY,
            destination_port: ANY,
            fragment: WHOLE,
            icmp_type: ANY,
            ..Self::ZEROS
        }
    }

    /// The address that lists are about. `egress`: [`crate::abi::Constants::egress`].
    #[inline(always)]
    pub const fn peer(&self, egress: u32) -> &Address {
        if egress == 0 {
            &self.source
        } else {
            &self.destination
        }
    }

    /// True if the packet opens a TCP connection: SYN without ACK. [`NONE`] and [`ANY`] have both bits.
    #[inline(always)]
    pub const fn opens_connection(&self) -> bool {
        const SYN: u32 = 0x02;
        const ACK: u32 = 0x10;
        self.flags & (SYN | ACK) == SYN
    }

    /// True if the packet may open a TCP connection or complete its handshake, as far as it can be seen. A later fragment does
    /// neither without the first one.
    #[inline(always)]
    pub const fn may_connect(&self) -> bool {
        let is_tcp = self.protocol == protocols::TCP || self.protocol == ANY;
        is_tcp && self.fragment != LATER_FRAGMENT
    }

    /// True if the packet has ports that can be seen.
    #[inline(always)]
    pub const fn has_ports(&self) -> bool {
        self.source_port < NONE
    }

    /// The destination port for keys; 0 if there is none or it cannot be seen.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a port below NONE has 16 bits"
    )]
    pub const fn key_port(&self) -> u16 {
        port_or_zero(self.destination_port) as u16
    }

    /// Protocol and ports for the key of a flow.
    #[inline(always)]
    pub const fn flow(&self) -> u64 {
        let (source, destination) = (
            port_or_zero(self.source_port),
            port_or_zero(self.destination_port),
        );
        pair::flow(self.protocol, source, destination)
    }
}

/// A port for keys: 0 if the packet has none, or it cannot be seen.
#[inline(always)]
const fn port_or_zero(port: u32) -> u32 {
    if port >= NONE { 0 } else { port }
}
