//! Parses a packet from the IP header to ports and flags: IPv4 options, IPv6 extension headers up to a bound,
//! fragments. A field that cannot be seen stays [`ANY`], which matches every limit.
//!
//! [`ANY`]: crate::abi::rules::ANY

use core::hint::black_box;

use super::{
    Bytes, PacketInfo,
    parse::{IPV4_HEADER, IPV6_HEADER, ipv4_length, words},
};
use crate::{
    abi::rules::{
        ANY, ANYWHERE, FIRST_FRAGMENT, LATER_FRAGMENT, NEEDS_DESTINATION, NEEDS_HEADER, NONE,
        OF_ICMPV6, WHOLE,
    },
    table::key::Address,
};

pub(super) const ICMP: u32 = 1;
pub(super) const TCP: u32 = 6;
pub(super) const UDP: u32 = 17;
const DCCP: u32 = 33;
pub(super) const ICMPV6: u32 = 58;
const SCTP: u32 = 132;
const UDP_LITE: u32 = 136;

// Extension headers (RFC 8200, section 4; AH: RFC 4302).
const HOP_BY_HOP: u32 = 0;
const ROUTING: u32 = 43;
const FRAGMENT: u32 = 44;
const AUTHENTICATION: u32 = 51;
const DESTINATION: u32 = 60;

#[expect(clippy::cast_possible_truncation, reason = "a small constant")]
const IPV6_BYTES: u32 = IPV6_HEADER as u32;

/// The most extension headers that the parser reads. RFC 8200 recommends at most six.
const EXTENSIONS_MAX: u32 = 8;
/// Minimum bytes of an extension header.
const EXTENSION: usize = 8;
/// The greatest length that limits tell apart, in bytes.
const LENGTH_MAX: u32 = 65_535;
/// Maximum bytes of an extension header: 256 units of eight.
const EXTENSION_LENGTH_MAX: u32 = 2_048;

/// Reads protocol, ports, flags and place in the datagram of an IPv4 packet. All fragments have the same protocol,
/// because it is part of the kernel's reassembly key.
#[inline(always)]
pub fn read_ipv4<B: Bytes>(packet: &mut B, needs: u32, info: &mut PacketInfo) {
    const MORE_FRAGMENTS: u16 = 0x2000;
    const OFFSET: u16 = 0x1fff;
    let Some(header) = packet.peek::<IPV4_HEADER>() else {
        return;
    };
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if needs & NEEDS_DESTINATION != 0 {
        let [.., a, b, c, d] = *header;
        info.destination = Address::ipv4(u32::from_ne_bytes([a, b, c, d]));
    }
    if needs & NEEDS_HEADER != 0 {
        info.ttl = header[8].into();
        info.dscp = u32::from(header[1]) >> 2;
    }
    info.protocol = header[9].into();
    // Receive offload writes 0 if the packet is too long for the field.
    info.length = match u16::from_be_bytes([header[2], header[3]]) {
        0 => ANY,
        length => length.into(),
    };
    info.fragment = place(fragment & OFFSET != 0, fragment & MORE_FRAGMENTS != 0);
    let length = ipv4_length(header);
    packet.skip(length);
    #[expect(clippy::cast_possible_truncation, reason = "at most 60")]
    read_transport(packet, needs, info, length as u32);
    // DHCP (RFC 2131): to the server's or the client's port.
    if info.protocol == UDP && (info.destination_port == 67 || info.destination_port == 68) {
        info.control = 1;
    }
}

#[inline(always)]
fn place(later: bool, more: bool) -> u32 {
    if later {
        LATER_FRAGMENT
    } else if more {
        FIRST_FRAGMENT
    } else {
        WHOLE
    }
}

/// Reads protocol, ports, flags and place in the datagram of an IPv6 packet. The next header of a later fragment is not
/// used: the receiver uses the first fragment's (RFC 8200, section 4.5).
#[inline(always)]
pub fn read_ipv6<B: Bytes>(packet: &mut B, needs: u32, info: &mut PacketInfo) {
    let Some(header) = packet.peek::<IPV6_HEADER>() else {
        return;
    };
    let (mut next, hop_limit) = (u32::from(header[6]), header[7]);
    if needs & NEEDS_DESTINATION != 0 {
        info.destination = Address::ipv6(words::<24>(header));
    }
    if needs & NEEDS_HEADER != 0 {
        info.ttl = hop_limit.into();
        let traffic_class = u16::from_be_bytes([header[0], header[1]]) >> 4 & 0xff;
        info.dscp = u32::from(traffic_class) >> 2;
    }
    let length = IPV6_BYTES + u32::from(u16::from_be_bytes([header[4], header[5]]));
    // A jumbogram (RFC 2675) has its length in a hop-by-hop option, and 0 here. Senders can write the same for a short
    // packet, so the length cannot be seen.
    info.length = if length == IPV6_BYTES && next == HOP_BY_HOP {
        ANY
    } else if length > LENGTH_MAX {
        LENGTH_MAX
    } else {
        length
    };
    packet.skip(IPV6_HEADER);
    let mut header = IPV6_BYTES;
    info.fragment = ANYWHERE;
    for _ in 0..EXTENSIONS_MAX {
        if !is_extension(next) {
            break;
        }
        let Some(extension) = packet.peek::<EXTENSION>() else {
            return;
        };
        let following = u32::from(extension[0]);
        if next == FRAGMENT {
            let fragment = u16::from_be_bytes([extension[2], extension[3]]);
            let place = place(fragment & 0xfff8 != 0, fragment & 1 != 0);
            // A second fragment header in a first fragment does not make the packet whole.
            if place != WHOLE {
                info.fragment = place;
            }
            if place == LATER_FRAGMENT {
                return;
            }
        }
        let size = B::size_of_header(next, extension[1].into());
        if size > EXTENSION_LENGTH_MAX {
            return;
        }
        packet.skip(size as usize);
        // Hidden from the compiler, which would otherwise compute the packet's position from this sum, without a bound
        // that the verifier sees.
        header += black_box(size);
        next = following;
    }
    if is_extension(next) {
        return;
    }
    if info.fragment == ANYWHERE {
        info.fragment = WHOLE;
    }
    info.protocol = next;
    read_transport(packet, needs, info, header);
    // Neighbour discovery (RFC 4861): only neighbours can send packets with hop limit 255.
    if next == ICMPV6 && hop_limit == 255 && is_neighbour_discovery(packet) {
        info.control = 1;
    }
    // DHCPv6 (RFC 8415).
    if next == UDP && (info.destination_port == 546 || info.destination_port == 547) {
        info.control = 1;
    }
}

#[inline(always)]
fn is_extension(next: u32) -> bool {
    matches!(
        next,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION
    )
}

/// Kind of header for VLAN tags, with their number as the length. No protocol has this number.
pub(super) const TAGS: u32 = 256;

/// Bytes of VLAN tags, or of an extension header of this kind and length field.
///
/// A global function in the kernel program: the verifier does not know its result, and so does not follow each number
/// of tags and each kind of header through the rest of the program.
#[inline(always)]
pub const fn size_of_header(kind: u32, length: u32) -> u32 {
    match kind {
        TAGS => length << 2,
        FRAGMENT => 8,
        AUTHENTICATION => (length + 2) << 2,
        _ => (length + 1) << 3,
    }
}

/// True if the ICMPv6 type is a solicitation or advertisement of routers or neighbours, or a redirect.
#[inline(always)]
fn is_neighbour_discovery<B: Bytes>(packet: &B) -> bool {
    matches!(packet.peek::<1>(), Some([133..=137]))
}

/// Bytes that receivers use of a packet behind its first `header` bytes, by the length in the IP header: padding of a
/// short frame is not among them. Of a first fragment, IPv4 uses whole units of eight bytes, and takes the others from
/// the next fragment (`ip_frag_queue`, net/ipv4/ip_fragment.c); IPv6 drops a fragment with others.
#[inline(always)]
pub(super) const fn bytes_behind(info: &PacketInfo, header: u32) -> u32 {
    let bytes = info.length.saturating_sub(header);
    if info.fragment == FIRST_FRAGMENT {
        bytes & !7
    } else {
        bytes
    }
}

/// Reads ports, flags and ICMP type. Bytes behind the length in the IP header are padding: receivers discard a whole
/// packet whose headers end there, and a first fragment without eight bytes. In a later fragment, and in a first
/// fragment that ends before them (RFC 1858), they cannot be seen. `header`: bytes from the IP header to here.
#[inline(always)]
fn read_transport<B: Bytes>(packet: &B, needs: u32, info: &mut PacketInfo, header: u32) {
    let protocol = info.protocol;
    if needs & NEEDS_HEADER != 0 {
        read_icmp_type(packet, info, header);
    }
    if protocol != TCP {
        info.flags = NONE;
    }
    if !matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE) {
        info.source_port = NONE;
        info.destination_port = NONE;
        return;
    }
    if info.fragment == LATER_FRAGMENT {
        return;
    }
    let Some(ports) = packet.peek::<4>() else {
        return;
    };
    info.source_port = u16::from_be_bytes([ports[0], ports[1]]).into();
    info.destination_port = u16::from_be_bytes([ports[2], ports[3]]).into();
    if protocol == TCP
        && (info.fragment != FIRST_FRAGMENT || bytes_behind(info, header) >= 14)
        && let Some(header) = packet.peek::<14>()
    {
        info.flags = header[13].into();
    }
}

#[inline(always)]
fn read_icmp_type<B: Bytes>(packet: &B, info: &mut PacketInfo, header: u32) {
    let family = match info.protocol {
        ICMP => 0,
        ICMPV6 => OF_ICMPV6,
        _ => {
            info.icmp_type = NONE;
            return;
        }
    };
    if info.fragment != LATER_FRAGMENT {
        let is_empty = bytes_behind(info, header) == 0;
        info.icmp_type = match packet.peek::<1>() {
            _ if is_empty && info.fragment == WHOLE => NONE,
            Some([kind]) if !is_empty => family + u32::from(*kind),
            _ => return,
        };
    }
}
