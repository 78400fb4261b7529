//! Errors of ICMP and ICMPv6 about the host's connections. An error quotes the beginning of a packet that its receiver has
//! sent. Its sender may be any router on the way.

use core::mem::offset_of;

use network_types::{
    ip::{Ipv4Hdr, Ipv6Hdr},
    udp::UdpHdr,
};

use super::{
    Bytes, PacketInfo, Parsed,
    parse::{ipv4_length, parse_ipv4, parse_ipv6, words},
    protocols::{ICMP, ICMPV6, TCP, UDP, field},
};
use crate::{
    abi::rules::{ANY, NONE, WHOLE},
    table::key::{Address, IPV4},
};

/// Bytes of the header of an error. The quoted packet follows.
const HEADER: usize = 8;
/// Bytes of the ports.
const PORTS: usize = offset_of!(UdpHdr, len);

/// Replaces the fields of an error by those of a packet that answers the quoted one, which is of the same connection.
/// `packet` is at the error's own header. Returns true if the error is about a packet of its own receiver, and shows
/// addresses, protocol and ports. Not behind extension headers of IPv6 in the quotation.
#[inline(always)]
pub fn read<B: Bytes>(packet: &mut B, info: &mut PacketInfo) -> bool {
    if info.fragment != WHOLE {
        return false;
    }
    if info.source.family == IPV4 {
        read_ipv4(packet, info).is_some()
    } else {
        read_ipv6(packet, info).is_some()
    }
}

#[inline(always)]
fn read_ipv4<B: Bytes>(packet: &mut B, info: &mut PacketInfo) -> Option<()> {
    const OFFSET: u16 = 0x1fff;
    let place = |header: &[u8; Ipv4Hdr::LEN]| u16::from_be_bytes(field!(header, Ipv4Hdr, frags, 2));
    let address = |bytes| Address::ipv4(u32::from_ne_bytes(bytes));
    if info.protocol != ICMP {
        return None;
    }
    take_error(packet, is_error)?;
    let Parsed::Ipv4(sender) = parse_ipv4(packet) else {
        return None;
    };
    let quoted = packet.peek::<{ Ipv4Hdr::LEN }>()?;
    // The host discards an error about another's packet. So would connection tracking.
    if sender.words != info.destination.words || place(quoted) & OFFSET != 0 {
        return None;
    }
    info.source = address(field!(quoted, Ipv4Hdr, dst_addr, 4));
    info.destination = sender;
    info.protocol = quoted[offset_of!(Ipv4Hdr, proto)].into();
    packet.skip(ipv4_length(quoted));
    read_ports(packet, info)
}

#[inline(always)]
fn read_ipv6<B: Bytes>(packet: &mut B, info: &mut PacketInfo) -> Option<()> {
    const TO: usize = offset_of!(Ipv6Hdr, dst_addr);
    if info.protocol != ICMPV6 {
        return None;
    }
    take_error(packet, is_error_v6)?;
    let Parsed::Ipv6(sender) = parse_ipv6(packet) else {
        return None;
    };
    let quoted = packet.peek::<{ Ipv6Hdr::LEN }>()?;
    if sender.words != info.destination.words {
        return None;
    }
    info.source = Address::ipv6(words::<TO>(quoted));
    info.destination = sender;
    info.protocol = quoted[offset_of!(Ipv6Hdr, next_hdr)].into();
    packet.skip(Ipv6Hdr::LEN);
    read_ports(packet, info)
}

/// Skips the header of an error. None for another message.
#[inline(always)]
fn take_error<B: Bytes>(packet: &mut B, is_error: impl FnOnce(u8) -> bool) -> Option<()> {
    let [kind, ..] = packet.peek::<HEADER>()?;
    let is_error = is_error(*kind);
    packet.skip(HEADER);
    is_error.then_some(())
}

/// Reads the ports of a quoted packet, in exchange.
#[inline(always)]
fn read_ports<B: Bytes>(packet: &B, info: &mut PacketInfo) -> Option<()> {
    if info.protocol != TCP && info.protocol != UDP {
        return None;
    }
    let ports = packet.peek::<PORTS>()?;
    info.destination_port = u16::from_be_bytes(field!(ports, UdpHdr, src, 2)).into();
    info.source_port = u16::from_be_bytes(field!(ports, UdpHdr, dst, 2)).into();
    Some(())
}

/// True if messages of ICMP of this type are errors about a packet: unreachable, time exceeded, parameter problem. Not
/// redirects, which change routes, and are for the first hop alone.
#[inline(always)]
const fn is_error(kind: u8) -> bool {
    matches!(kind, 3 | 11 | 12)
}

/// True if messages of ICMPv6 of this type are errors about a packet: unreachable, packet too big, time exceeded, parameter
/// problem.
#[inline(always)]
const fn is_error_v6(kind: u8) -> bool {
    matches!(kind, 1..=4)
}

impl PacketInfo {
    /// True if the packet may be an error about another one.
    #[inline(always)]
    pub const fn may_be_error(&self) -> bool {
        self.protocol == ICMP || self.protocol == ICMPV6
    }

    /// Makes an error about a connection count as a packet of this connection. Fields that such a packet would have, and the
    /// error does not show, cannot be seen.
    #[inline(always)]
    pub const fn count_as(&mut self, of_connection: &Self) {
        self.source = of_connection.source;
        self.destination = of_connection.destination;
        self.protocol = of_connection.protocol;
        self.source_port = of_connection.source_port;
        self.destination_port = of_connection.destination_port;
        self.flags = ANY;
        self.icmp_type = NONE;
    }
}
