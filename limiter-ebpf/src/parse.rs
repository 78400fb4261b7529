//! From the Ethernet header to the source address: VLAN tags, IPv4 or IPv6.
//!
//! The source address sits at a fixed offset of either header, so neither options nor extension
//! headers nor a first fragment are needed for it.

use limiter_common::key::{Address, Words, ipv4_words};
use network_types::{
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
    vlan::VlanHdr,
};

use crate::config;
use crate::packet::Cursor;

/// What a packet is to a limit. The cursor stands at the header of IP or ARP then.
pub enum Parsed {
    /// IPv4, whose header has been checked.
    Ipv4(Address),
    /// IPv6, whose fixed header has been checked.
    Ipv6(Address),
    /// ARP, from the one who says that it has this address; only where control traffic is told apart.
    Arp(Address),
    /// Nothing that a limit holds.
    NotIp,
    /// IP or a VLAN tag that is cut short or impossible: the host discards it.
    Malformed,
    /// More VLAN tags than the parser looks behind: the host may deliver it.
    TooManyTags,
}

const VLAN: u16 = EtherType::Ieee8021q as u16;
const SERVICE_VLAN: u16 = EtherType::Ieee8021ad as u16;
const IPV4: u16 = EtherType::Ipv4 as u16;
const IPV6: u16 = EtherType::Ipv6 as u16;
const ARP: u16 = EtherType::Arp as u16;

/// VLAN tags that the parser looks behind. The kernel removes any number of tags with id 0 and delivers the packet on a
/// plain interface (`__netif_receive_skb_core`, net/core/dev.c).
const TAGS_MAX: u32 = 8;

/// Covers the bytes of [`TAGS_MAX`] tags.
const TAG_BYTES_MASK: u32 = (2 * TAGS_MAX * VlanHdr::LEN as u32) - 1;

#[inline(always)]
fn is_tag(ether_type: u16) -> bool {
    ether_type == VLAN || ether_type == SERVICE_VLAN
}

/// Bytes of so many tags. A function of its own, whose result the verifier does not know: it would follow each number of
/// tags through the rest of the program by itself.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn bytes_of_tags(tags: u32) -> u32 {
    tags * VlanHdr::LEN as u32
}

/// Whose packet this is.
#[inline(always)]
pub fn parse(packet: &mut Cursor) -> Parsed {
    let Some(ethernet) = packet.take::<EthHdr>() else {
        return Parsed::NotIp;
    };
    // SAFETY: `take` has checked that the header lies within the packet.
    let mut ether_type = unsafe { (&raw const (*ethernet).ether_type).read_unaligned() };
    let (mut tags, mut behind) = (0, *packet);
    while is_tag(ether_type) && tags < TAGS_MAX {
        let Some(tag) = behind.take::<VlanHdr>() else {
            return Parsed::Malformed;
        };
        // SAFETY: as above.
        ether_type = unsafe { (&raw const (*tag).ether_type).read_unaligned() };
        tags += 1;
    }
    if tags > 0 {
        packet.skip((bytes_of_tags(tags) & TAG_BYTES_MASK) as usize);
    }
    match ether_type {
        IPV4 => parse_ipv4(packet),
        IPV6 => parse_ipv6(packet),
        ARP if config::control() => parse_arp(packet),
        VLAN | SERVICE_VLAN => Parsed::TooManyTags,
        _ => Parsed::NotIp,
    }
}

#[inline(always)]
fn parse_ipv4(packet: &Cursor) -> Parsed {
    let Some(header) = packet.peek::<Ipv4Hdr>() else {
        return Parsed::Malformed;
    };
    // SAFETY: `peek` has checked that the fixed part of the header lies within the packet.
    let (vihl, source) = unsafe {
        (
            (*header).vihl,
            (&raw const (*header).src_addr)
                .cast::<u32>()
                .read_unaligned(),
        )
    };
    let header_length = ((vihl & 0xf) as usize) << 2;
    if vihl >> 4 != 4 || header_length < Ipv4Hdr::LEN || !packet.has(header_length) {
        return Parsed::Malformed;
    }
    Parsed::Ipv4(Address::ipv4(source))
}

#[inline(always)]
fn parse_ipv6(packet: &Cursor) -> Parsed {
    let Some(header) = packet.peek::<Ipv6Hdr>() else {
        return Parsed::Malformed;
    };
    // SAFETY: `peek` has checked that the header lies within the packet.
    let (first, source) = unsafe {
        (
            (*header).vcf[0],
            (&raw const (*header).src_addr)
                .cast::<Words>()
                .read_unaligned(),
        )
    };
    if first >> 4 != 6 {
        return Parsed::Malformed;
    }
    Parsed::Ipv6(Address::ipv6(source))
}

/// Where the IPv4 packet goes, from the cursor at its header.
#[inline(always)]
pub fn destination_ipv4(packet: &Cursor) -> Option<Words> {
    let header = packet.peek::<Ipv4Hdr>()?;
    // SAFETY: `peek` has checked that the header lies within the packet.
    let destination = unsafe {
        (&raw const (*header).dst_addr)
            .cast::<u32>()
            .read_unaligned()
    };
    Some(ipv4_words(destination))
}

/// Where the IPv6 packet goes.
#[inline(always)]
pub fn destination_ipv6(packet: &Cursor) -> Option<Words> {
    let header = packet.peek::<Ipv6Hdr>()?;
    // SAFETY: as above.
    Some(unsafe {
        (&raw const (*header).dst_addr)
            .cast::<Words>()
            .read_unaligned()
    })
}

/// ARP for IPv4 over Ethernet (RFC 826), up to the sender's protocol address.
#[repr(C, packed)]
struct ArpHdr {
    fixed: [u8; 8],
    sender_hardware: [u8; 6],
    sender: u32,
}

#[inline(always)]
fn parse_arp(packet: &Cursor) -> Parsed {
    match packet.peek::<ArpHdr>() {
        // SAFETY: `peek` has checked that it lies within the packet.
        Some(header) => Parsed::Arp(Address::ipv4(unsafe {
            (&raw const (*header).sender).read_unaligned()
        })),
        None => Parsed::NotIp,
    }
}
