//! From the Ethernet header to the source address: zero to two VLAN tags, IPv4 or IPv6.
//!
//! The source address sits at a fixed offset of either header, so neither options nor extension
//! headers nor a first fragment are needed for it.

use limiter_common::key::SourceKey;
use network_types::{
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
    vlan::VlanHdr,
};

use crate::config;
use crate::packet::Cursor;

/// What a packet is to a limit.
pub enum Parsed {
    /// IP, from the source that has this key.
    Ip(SourceKey),
    /// Nothing that a limit holds.
    NotIp,
    /// It says that it is IP (or that a tag follows), and cannot be.
    Malformed,
}

const VLAN: u16 = EtherType::Ieee8021q as u16;
const SERVICE_VLAN: u16 = EtherType::Ieee8021ad as u16;
const IPV4: u16 = EtherType::Ipv4 as u16;
const IPV6: u16 = EtherType::Ipv6 as u16;

/// Customer and service tag. A third tag is not looked behind: no device of this kernel could
/// deliver such a packet without two more devices stacked on this one.
const TAGS_MAX: u32 = 2;

/// Whose packet this is.
#[inline(always)]
pub fn parse(packet: &mut Cursor) -> Parsed {
    let Some(ethernet) = packet.take::<EthHdr>() else {
        return Parsed::NotIp;
    };
    // SAFETY: `take` has checked that the header lies within the packet.
    let mut ether_type = unsafe { (&raw const (*ethernet).ether_type).read_unaligned() };
    for _ in 0..TAGS_MAX {
        if ether_type != VLAN && ether_type != SERVICE_VLAN {
            break;
        }
        let Some(tag) = packet.take::<VlanHdr>() else {
            return Parsed::Malformed;
        };
        // SAFETY: as above.
        ether_type = unsafe { (&raw const (*tag).ether_type).read_unaligned() };
    }
    match ether_type {
        IPV4 => parse_ipv4(packet),
        IPV6 => parse_ipv6(packet),
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
    if config::keyed_by_interface() {
        return Parsed::Ip(SourceKey::interface());
    }
    Parsed::Ip(SourceKey::ipv4(source, config::mask_ipv4()))
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
                .cast::<[u32; 4]>()
                .read_unaligned(),
        )
    };
    if first >> 4 != 6 {
        return Parsed::Malformed;
    }
    if config::keyed_by_interface() {
        return Parsed::Ip(SourceKey::interface());
    }
    Parsed::Ip(SourceKey::ipv6(source, config::mask_ipv6()))
}
