//! Reads packets as the limits that `learn` proposes will see them: control traffic is exempt.

use super::{
    PacketInfo, Parsed,
    control::{self, Recognised},
    parse,
    protocols::TCP,
};
use crate::abi::{
    Constants,
    rules::{NEEDS_CONTROL, NEEDS_DESTINATION, NEEDS_TRANSPORT, NONE},
};

/// `Constants::needs` of `learn`.
pub const NEEDS: u32 = NEEDS_TRANSPORT | NEEDS_DESTINATION | NEEDS_CONTROL;

/// A packet, as `learn` tells packets apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not of IP.
    NotIp,
    /// A malformed IP packet.
    Malformed,
    /// Control traffic of the link.
    Control,
    /// Another IP packet, whose fields have been read.
    Limited,
}

/// Reads a packet from its Ethernet header on into a blank `info`. `constants` have [`NEEDS`].
#[inline(always)]
pub fn read<B: Recognised>(packet: &mut B, info: &mut PacketInfo, constants: &Constants) -> Kind {
    let frame = *packet;
    let parsed = parse(packet);
    match parsed {
        Parsed::Ipv4(_) | Parsed::Ipv6(_) => {}
        Parsed::NotIp | Parsed::Arp(_) => return Kind::NotIp,
        Parsed::Malformed | Parsed::TooManyTags => return Kind::Malformed,
    }
    let from = packet.remaining();
    parsed.read(packet, NEEDS, info);
    #[expect(clippy::cast_possible_truncation, reason = "bytes of headers")]
    let header = from.wrapping_sub(packet.remaining()) as u32;
    if control::may_be(info) && B::control(&frame, packet, header, info, constants) != 0 {
        Kind::Control
    } else {
        Kind::Limited
    }
}

impl PacketInfo {
    /// True for a segment that follows a handshake of TCP: a made-up source sends none. Neither SYN nor RST is set.
    #[inline(always)]
    pub const fn follows_handshake(&self) -> bool {
        const SYN_OR_RST: u32 = 0x06;
        self.protocol == TCP && self.flags < NONE && self.flags & SYN_OR_RST == 0
    }
}
