//! Parses a packet from the Ethernet header to the source address: VLAN tags, ARP, IPv4, IPv6.
//!
//! The source address has a fixed offset in both IP headers, so that options, extension headers and fragments do not
//! matter.

use core::mem::offset_of;

use network_types::{
    arp::ArpHdr,
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
    vlan::VlanHdr,
};

use super::{
    Bytes, PacketInfo,
    protocols::{field, in_frame},
    transport::{self, TAGS},
};
use crate::{
    abi::rules::{CONTROL_LINK, CONTROL_NEAR, NEEDS_DESTINATION, NEEDS_TRANSPORT, NONE},
    table::key::{Address, Words},
};

/// Result of parsing up to the IP header. The packet's position is then at its IP or ARP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// IPv4, with a checked header.
    Ipv4(Address),
    /// IPv6, with a checked fixed header.
    Ipv6(Address),
    /// ARP, with the sender's protocol address.
    Arp(Address),
    /// Not IP: no limit applies.
    NotIp,
    /// Malformed IP or a truncated VLAN tag: the host discards the packet.
    Malformed,
    /// More VLAN tags than the parser reads: the host may deliver the packet.
    TooManyTags,
}

// EtherTypes, in network byte order.
const VLAN: u16 = in_frame(EtherType::Ieee8021q);
const SERVICE_VLAN: u16 = in_frame(EtherType::Ieee8021ad);
const IPV4: u16 = in_frame(EtherType::Ipv4);
const IPV6: u16 = in_frame(EtherType::Ipv6);
const ARP: u16 = in_frame(EtherType::Arp);

/// Bytes of an ARP packet for IPv4 over Ethernet (RFC 826), up to the end of the sender's IP address.
const ARP_HEADER: usize = offset_of!(ArpHdr, tha);

/// The most VLAN tags that the parser reads. The kernel removes any number of tags with id 0 and delivers the packet
/// (`__netif_receive_skb_core`, net/core/dev.c).
const TAGS_MAX: u32 = 8;

/// Mask for the verifier: bounds the bytes of [`TAGS_MAX`] tags.
const TAG_BYTES_MASK: usize = 2 * TAGS_MAX as usize * VlanHdr::LEN - 1;

/// Reads the Ethernet header. Returns its EtherType, in network byte order.
#[inline(always)]
pub fn ethernet<B: Bytes>(packet: &mut B) -> Option<u16> {
    let header = packet.peek::<{ EthHdr::LEN }>()?;
    let ether_type = u16::from_ne_bytes(field!(header, EthHdr, ether_type, 2));
    packet.skip(EthHdr::LEN);
    Some(ether_type)
}

/// Parses a packet from the link-layer header on.
#[inline(always)]
pub fn parse<B: Bytes + Copy>(packet: &mut B) -> Parsed {
    let Some(mut ether_type) = packet.ether_type() else {
        return Parsed::NotIp;
    };
    // Most packets have no tags.
    if B::UNTAGGED_FIRST && ether_type == IPV4 {
        return parse_ipv4(packet);
    }
    let (mut tags, mut behind) = (0, *packet);
    while is_tag(ether_type) && tags < TAGS_MAX {
        let Some(tag) = behind.peek::<{ VlanHdr::LEN }>() else {
            return Parsed::Malformed;
        };
        ether_type = u16::from_ne_bytes(field!(tag, VlanHdr, ether_type, 2));
        behind.skip(VlanHdr::LEN);
        tags += 1;
    }
    if tags > 0 {
        packet.skip(B::size_of_header(TAGS, tags) as usize & TAG_BYTES_MASK);
    }
    match ether_type {
        IPV4 => parse_ipv4(packet),
        IPV6 => parse_ipv6(packet),
        ARP => parse_arp(packet),
        VLAN | SERVICE_VLAN => Parsed::TooManyTags,
        _ => Parsed::NotIp,
    }
}

/// The VLAN of a packet from the link-layer header on: the id of the first tag whose id is not 0, or [`NONE`]. The kernel
/// ignores tags with id 0, and delivers the packet by the next one. `outer`: the id that the card or the kernel has taken off
/// the frame, or 0.
#[inline(always)]
pub fn vlan<B: Bytes>(packet: &mut B, outer: u32) -> u32 {
    const ID: u16 = 0xfff;
    if outer != 0 {
        return outer;
    }
    let Some(mut ether_type) = packet.ether_type() else {
        return NONE;
    };
    let mut tags = 0;
    while is_tag(ether_type) && tags < TAGS_MAX {
        let Some(tag) = packet.peek::<{ VlanHdr::LEN }>() else {
            return NONE;
        };
        let id = u16::from_be_bytes([tag[0], tag[1]]) & ID;
        if id != 0 {
            return id.into();
        }
        ether_type = u16::from_ne_bytes(field!(tag, VlanHdr, ether_type, 2));
        packet.skip(VlanHdr::LEN);
        tags += 1;
    }
    NONE
}

#[inline(always)]
const fn is_tag(ether_type: u16) -> bool {
    ether_type == VLAN || ether_type == SERVICE_VLAN
}

#[inline(always)]
pub(super) fn parse_ipv4<B: Bytes>(packet: &B) -> Parsed {
    let Some(header) = packet.peek::<{ Ipv4Hdr::LEN }>() else {
        return Parsed::Malformed;
    };
    let length = ipv4_length(header);
    // Most packets have no options: one comparison.
    let is_plain = header[0] == 0x45;
    if !is_plain && (header[0] >> 4 != 4 || length < Ipv4Hdr::LEN || !packet.has(length)) {
        return Parsed::Malformed;
    }
    Parsed::Ipv4(Address::ipv4(u32::from_ne_bytes(field!(
        header, Ipv4Hdr, src_addr, 4
    ))))
}

/// Bytes of the IPv4 header, from its length field.
#[inline(always)]
pub(super) fn ipv4_length(header: &[u8; Ipv4Hdr::LEN]) -> usize {
    ((header[0] & 0xf) as usize) << 2
}

#[inline(always)]
pub(super) fn parse_ipv6<B: Bytes>(packet: &B) -> Parsed {
    match packet.peek::<{ Ipv6Hdr::LEN }>() {
        Some(header) if header[0] >> 4 == 6 => Parsed::Ipv6(Address::ipv6(words::<
            { offset_of!(Ipv6Hdr, src_addr) },
        >(header))),
        _ => Parsed::Malformed,
    }
}

/// The address at offset `AT` of an IPv6 header.
#[inline(always)]
pub(super) fn words<const AT: usize>(header: &[u8; Ipv6Hdr::LEN]) -> Words {
    let word = |offset: usize| {
        u64::from_ne_bytes([
            header[offset],
            header[offset + 1],
            header[offset + 2],
            header[offset + 3],
            header[offset + 4],
            header[offset + 5],
            header[offset + 6],
            header[offset + 7],
        ])
    };
    [word(AT), word(AT + 8)]
}

#[inline(always)]
fn parse_arp<B: Bytes>(packet: &B) -> Parsed {
    match packet.peek::<ARP_HEADER>() {
        Some(header) => Parsed::Arp(Address::ipv4(u32::from_ne_bytes(field!(
            header, ArpHdr, spa, 4
        )))),
        None => Parsed::NotIp,
    }
}

impl Parsed {
    /// The source address, if there is one.
    #[inline(always)]
    pub const fn source(&self) -> Option<Address> {
        match self {
            Self::Ipv4(source) | Self::Ipv6(source) | Self::Arp(source) => Some(*source),
            Self::NotIp | Self::Malformed | Self::TooManyTags => None,
        }
    }

    /// Writes the source, if there is one, and the fields that limits use by the bits in `needs`, to a blank `info`.
    /// The packet is at its IP header.
    #[inline(always)]
    pub fn read<B: Bytes>(&self, packet: &mut B, needs: u32, info: &mut PacketInfo) {
        let Some(source) = self.source() else {
            return;
        };
        info.source = source;
        match self {
            Self::Ipv4(_) if needs != 0 => transport::read_ipv4(packet, needs, info),
            Self::Ipv6(_) if needs != 0 => transport::read_ipv6(packet, needs, info),
            Self::Arp(_) => info.control = CONTROL_LINK | CONTROL_NEAR,
            _ => {}
        }
    }
}

/// Reads addresses and transport header of a packet from the Ethernet header on into a blank `info`. Returns whether
/// the packet is IP.
#[inline(always)]
pub fn read<B: Bytes + Copy>(packet: &mut B, info: &mut PacketInfo) -> bool {
    let parsed = parse(packet);
    parsed.read(packet, NEEDS_TRANSPORT | NEEDS_DESTINATION, info);
    matches!(parsed, Parsed::Ipv4(_) | Parsed::Ipv6(_))
}
