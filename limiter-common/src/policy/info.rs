//! The fields that have been parsed of a packet.

use crate::{
    abi::rules::{ANY, LATER_FRAGMENT, NONE, WHOLE},
    table::key::Address,
};

/// The fields of a packet that limits use.
///
/// The ports share an aligned word of eight bytes, because LLVM writes both at once, and the verifier wants such a
/// write aligned on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PacketInfo {
    /// Its source; of family 0 if it has none.
    pub source: Address,
    /// Transport protocol, or [`ANY`] if it cannot be seen.
    pub protocol: u32,
    /// TCP flags, [`NONE`], or [`ANY`] if they cannot be seen.
    pub flags: u32,
    /// Source port, likewise.
    pub source_port: u32,
    /// Destination port, likewise.
    pub destination_port: u32,
    /// Place in the datagram: one bit of [`crate::abi::rules::ANYWHERE`], or all of them if it cannot be seen.
    pub fragment: u32,
    /// 1: control traffic.
    pub control: u32,
    /// Length of the IP packet as its header says, in bytes; 0 if no limit needs it.
    pub length: u32,
}

impl PacketInfo {
    /// A packet of which only the source is known.
    #[must_use]
    #[inline(always)]
    pub const fn of(source: Address) -> Self {
        Self {
            source,
            protocol: ANY,
            flags: ANY,
            source_port: ANY,
            destination_port: ANY,
            fragment: WHOLE,
            control: 0,
            length: 0,
        }
    }

    /// Whether it is the first segment of a TCP connection: SYN without ACK. [`NONE`] and [`ANY`] have both bits.
    #[must_use]
    #[inline(always)]
    pub const fn opens_connection(&self) -> bool {
        const SYN: u32 = 0x02;
        const ACK: u32 = 0x10;
        self.flags & (SYN | ACK) == SYN
    }

    /// The port that is part of keys: 0 if there is none, or it cannot be seen.
    #[must_use]
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a port below NONE has 16 bits"
    )]
    pub const fn key_port(&self) -> u16 {
        if self.destination_port >= NONE {
            0
        } else {
            self.destination_port as u16
        }
    }

    /// Whether something of the transport header cannot be seen that should be in this packet.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        let unseen = [self.protocol, self.source_port, self.flags].contains(&ANY);
        unseen && self.fragment != LATER_FRAGMENT && self.control == 0
    }
}
