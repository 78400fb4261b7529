//! Parses a packet from the IP header to ports and flags: IPv4 options, IPv6 extension headers up to a bound,
//! fragments. A field that cannot be seen stays [`ANY`], which matches every limit.
//!
//! [`ANY`]: crate::abi::rules::ANY

use core::{hint::black_box, mem::offset_of};

use network_types::{
    ip::{Ipv4Hdr, Ipv6Hdr},
    tcp::TcpHdr,
    udp::UdpHdr,
};

use super::{
    Bytes, PacketInfo,
    parse::{ipv4_length, words},
    protocols::{
        AUTHENTICATION, DCCP, DESTINATION, FRAGMENT, HOP_BY_HOP, ICMP, ICMPV6, ROUTING, SCTP, TCP,
        UDP, UDP_LITE, field, length,
    },
};
use crate::{
    abi::rules::{
        ANY, ANYWHERE, FIRST_FRAGMENT, LATER_FRAGMENT, NEEDS_DESTINATION, NEEDS_HEADER, NONE,
        OF_ICMPV6, WHOLE,
    },
    table::key::Address,
};

const IPV6_BYTES: u32 = length(Ipv6Hdr::LEN);

/// Bytes of the ports, which TCP, UDP, DCCP and SCTP have first, in the same places.
const PORTS: usize = offset_of!(UdpHdr, len);
/// Bytes of a TCP header up to its flags, which are the last byte in front of the window.
const FLAGS_END: usize = offset_of!(TcpHdr, window);

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
    let Some(header) = packet.peek::<{ Ipv4Hdr::LEN }>() else {
        return;
    };
    let fragment = u16::from_be_bytes(field!(header, Ipv4Hdr, frags, 2));
    if needs & NEEDS_DESTINATION != 0 {
        let address = field!(header, Ipv4Hdr, dst_addr, 4);
        info.destination = Address::ipv4(u32::from_ne_bytes(address));
    }
    if needs & NEEDS_HEADER != 0 {
        info.ttl = header[offset_of!(Ipv4Hdr, ttl)].into();
        info.dscp = u32::from(header[offset_of!(Ipv4Hdr, tos)]) >> 2;
    }
    info.protocol = header[offset_of!(Ipv4Hdr, proto)].into();
    // Receive offload writes 0 if the packet is too long for the field.
    info.length = match u16::from_be_bytes(field!(header, Ipv4Hdr, tot_len, 2)) {
        0 => ANY,
        length => length.into(),
    };
    info.fragment = place(fragment & OFFSET != 0, fragment & MORE_FRAGMENTS != 0);
    let bytes = ipv4_length(header);
    packet.skip(bytes);
    read_transport(packet, needs, info, length(bytes));
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
    let Some(header) = packet.peek::<{ Ipv6Hdr::LEN }>() else {
        return;
    };
    let mut next = u32::from(header[offset_of!(Ipv6Hdr, next_hdr)]);
    let hop_limit = header[offset_of!(Ipv6Hdr, hop_limit)];
    if needs & NEEDS_DESTINATION != 0 {
        info.destination = Address::ipv6(words::<{ offset_of!(Ipv6Hdr, dst_addr) }>(header));
    }
    if needs & NEEDS_HEADER != 0 {
        info.ttl = hop_limit.into();
        let traffic_class = u16::from_be_bytes([header[0], header[1]]) >> 4 & 0xff;
        info.dscp = u32::from(traffic_class) >> 2;
    }
    let bytes = IPV6_BYTES + u32::from(u16::from_be_bytes(field!(header, Ipv6Hdr, payload_len, 2)));
    // A jumbogram (RFC 2675) has its length in a hop-by-hop option, and 0 here. Senders can write the same for a short
    // packet, so the length cannot be seen.
    info.length = if bytes == IPV6_BYTES && next == HOP_BY_HOP {
        ANY
    } else if bytes > LENGTH_MAX {
        LENGTH_MAX
    } else {
        bytes
    };
    packet.skip(Ipv6Hdr::LEN);
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
    let Some(ports) = packet.peek::<PORTS>() else {
        return;
    };
    info.source_port = u16::from_be_bytes(field!(ports, UdpHdr, src, 2)).into();
    info.destination_port = u16::from_be_bytes(field!(ports, UdpHdr, dst, 2)).into();
    if protocol == TCP
        && (info.fragment != FIRST_FRAGMENT || bytes_behind(info, header) >= length(FLAGS_END))
        && let Some(header) = packet.peek::<FLAGS_END>()
    {
        info.flags = header[FLAGS_END - 1].into();
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
