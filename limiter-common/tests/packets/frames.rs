//! Frames made by hand, and the fields that the parser must read from them.

use std::net::{Ipv4Addr, Ipv6Addr};

use limiter_common::{
    abi::rules::{
        ANY, LATER_FRAGMENT, NEEDS_DESTINATION, NEEDS_HEADER, NEEDS_TRANSPORT, NONE, WHOLE,
    },
    policy::{Bytes, PacketInfo, Parsed},
    table::key::Address,
};

pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const ARP: u16 = 0x0806;
pub const VLAN: u16 = 0x8100;
pub const SERVICE_VLAN: u16 = 0x88a8;

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMPV6: u8 = 58;
/// Protocols with two ports in their first four bytes.
pub const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];
pub const HOP_BY_HOP: u8 = 0;
pub const FRAGMENT: u8 = 44;
pub const AUTHENTICATION: u8 = 51;
pub const DESTINATION: u8 = 60;
pub const EXTENSIONS: [u8; 5] = [HOP_BY_HOP, 43, FRAGMENT, AUTHENTICATION, DESTINATION];

/// A transport header with ports 4660 and 22136, and the TCP flags 0xa5.
pub const TRANSPORT: [u8; 14] = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0xa5];

pub fn source_v4() -> Address {
    Address::ipv4(u32::from_ne_bytes(Ipv4Addr::new(192, 0, 2, 7).octets()))
}

pub const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);

pub fn source_v6() -> Address {
    let octets = SOURCE_V6.octets();
    let word = |half: &[u8]| u64::from_ne_bytes(half.try_into().expect("eight bytes"));
    Address::ipv6([word(&octets[..8]), word(&octets[8..])])
}

/// A frame with these EtherTypes. All except the last are VLAN tags.
pub fn ethernet(types: &[u16], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (index, kind) in types.iter().enumerate() {
        if index > 0 {
            frame.extend([0x20, 0x7b]);
        }
        frame.extend(kind.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// A packet with a header of `words` 32-bit words. Words beyond five are options.
pub fn ipv4(words: u8, fragment: u16, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x11; usize::from(words) * 4];
    packet[0] = 0x40 | words;
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&[192, 0, 2, 7]);
    packet.extend(transport);
    packet
}

pub fn ipv6(next: u8, hop_limit: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x11; 40];
    (packet[0], packet[6], packet[7]) = (0x60, next, hop_limit);
    packet[8..24].copy_from_slice(&SOURCE_V6.octets());
    packet.extend(rest);
    packet
}

/// An extension header of `kind`, with this length field, before `next`.
pub fn extension(kind: u8, length: u8, next: u8) -> Vec<u8> {
    let size = match kind {
        FRAGMENT => 8,
        AUTHENTICATION => 4 * (usize::from(length) + 2),
        _ => 8 * (usize::from(length) + 1),
    };
    let mut header = vec![0; size.max(8)];
    (header[0], header[1]) = (next, length);
    header
}

/// The fragment header of RFC 8200, section 4.5, with this field of offset and flags.
pub fn fragment(field: u16, next: u8) -> Vec<u8> {
    let [upper, lower] = field.to_be_bytes();
    // The second byte is reserved. It is not a length.
    vec![next, 0xff, upper, lower, 0, 0, 0, 1]
}

pub trait Fields {
    /// The fields of a packet that is at its IP header; none if it has no source.
    fn info<B: Bytes>(&self, packet: &mut B, needs: u32) -> Option<PacketInfo>;
}

impl Fields for Parsed {
    fn info<B: Bytes>(&self, packet: &mut B, needs: u32) -> Option<PacketInfo> {
        let mut info = PacketInfo::of(self.source()?);
        self.read(packet, needs, &mut info);
        Some(info)
    }
}

pub fn info(parsed: Parsed, mut packet: &[u8]) -> PacketInfo {
    parsed.info(&mut packet, NEEDS_TRANSPORT).expect("a source")
}

pub fn info_v4(packet: &[u8]) -> PacketInfo {
    info(Parsed::Ipv4(source_v4()), packet)
}

pub fn info_v6(packet: &[u8]) -> PacketInfo {
    info(Parsed::Ipv6(source_v6()), packet)
}

/// The info of a packet of `protocol` that carries [`TRANSPORT`].
pub fn carrying(source: Address, protocol: u8) -> PacketInfo {
    let has_ports = WITH_PORTS.contains(&protocol);
    PacketInfo {
        protocol: protocol.into(),
        source_port: if has_ports { 0x1234 } else { NONE },
        destination_port: if has_ports { 0x5678 } else { NONE },
        flags: if protocol == TCP { 0xa5 } else { NONE },
        fragment: WHOLE,
        control: 0,
        // Both length fields are 0x1111. In IPv6, the field does not include the header.
        length: if source == source_v4() {
            0x1111
        } else {
            40 + 0x1111
        },
        ..PacketInfo::of(source)
    }
}

/// The info of [`carrying`], with unreadable ports and flags if the protocol has any.
pub fn without_ports(source: Address, protocol: u8) -> PacketInfo {
    let unseen = |value| if value == NONE { NONE } else { ANY };
    let seen = carrying(source, protocol);
    PacketInfo {
        source_port: unseen(seen.source_port),
        destination_port: unseen(seen.destination_port),
        flags: unseen(seen.flags),
        ..seen
    }
}

/// A later fragment of IPv4.
pub fn later(protocol: u8) -> PacketInfo {
    PacketInfo {
        fragment: LATER_FRAGMENT,
        ..without_ports(source_v4(), protocol)
    }
}

/// The info of an IPv6 packet of which only the position in the datagram is known.
pub fn unseen(fragment: u32) -> PacketInfo {
    PacketInfo {
        fragment,
        length: 40 + 0x1111,
        ..PacketInfo::of(source_v6())
    }
}

/// All fields that limits can use.
pub const ALL: u32 = NEEDS_TRANSPORT | NEEDS_HEADER | NEEDS_DESTINATION;
