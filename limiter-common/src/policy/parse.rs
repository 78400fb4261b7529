//! From the Ethernet header to the source address: VLAN tags, ARP, IPv4 or IPv6.
//!
//! The source address is at a fixed offset of either IP header, so that neither options nor extension headers nor a
//! first fragment are needed for it.

use super::{
    Bytes, PacketInfo,
    transport::{self, TAGS},
};
use crate::table::key::{Address, Words, ipv4_words};

/// Result of parsing up to the IP header. The position is then at the header of IP or ARP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// IPv4, with a checked header.
    Ipv4(Address),
    /// IPv6, with a checked fixed header.
    Ipv6(Address),
    /// ARP, with the sender's protocol address.
    Arp(Address),
    /// No limit matches it.
    NotIp,
    /// IP or a VLAN tag that is truncated or impossible: the host discards it.
    Malformed,
    /// More VLAN tags than the parser reads: the host may deliver it.
    TooManyTags,
}

/// Types in network byte order.
const VLAN: u16 = 0x8100_u16.to_be();
const SERVICE_VLAN: u16 = 0x88a8_u16.to_be();
const IPV4: u16 = 0x0800_u16.to_be();
const IPV6: u16 = 0x86dd_u16.to_be();
const ARP: u16 = 0x0806_u16.to_be();

/// Bytes of the Ethernet header, up to and with the type.
const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Bytes of the IPv4 header without options.
pub(super) const IPV4_HEADER: usize = 20;
/// Bytes of the fixed IPv6 header.
pub(super) const IPV6_HEADER: usize = 40;
/// Bytes of ARP for IPv4 over Ethernet (RFC 826), up to and with the sender's protocol address.
const ARP_HEADER: usize = 18;

/// VLAN tags that the parser reads. The kernel removes any number of tags with id 0 and delivers the packet on a
/// plain interface (`__netif_receive_skb_core`, net/core/dev.c).
const TAGS_MAX: u32 = 8;

/// Covers the bytes of [`TAGS_MAX`] tags.
const TAG_BYTES_MASK: usize = 2 * TAGS_MAX as usize * TAG - 1;

/// Reads from the Ethernet header on.
#[inline(always)]
pub fn parse<B: Bytes + Copy>(packet: &mut B) -> Parsed {
    let Some(header) = packet.peek::<ETHERNET>() else {
        return Parsed::NotIp;
    };
    let mut ether_type = u16::from_ne_bytes([header[12], header[13]]);
    packet.skip(ETHERNET);
    let (mut tags, mut behind) = (0, *packet);
    while is_tag(ether_type) && tags < TAGS_MAX {
        let Some(tag) = behind.peek::<TAG>() else {
            return Parsed::Malformed;
        };
        ether_type = u16::from_ne_bytes([tag[2], tag[3]]);
        behind.skip(TAG);
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

#[inline(always)]
const fn is_tag(ether_type: u16) -> bool {
    ether_type == VLAN || ether_type == SERVICE_VLAN
}

#[inline(always)]
fn parse_ipv4<B: Bytes>(packet: &B) -> Parsed {
    let Some(header) = packet.peek::<IPV4_HEADER>() else {
        return Parsed::Malformed;
    };
    let length = ipv4_length(header);
    if header[0] >> 4 != 4 || length < IPV4_HEADER || !packet.has(length) {
        return Parsed::Malformed;
    }
    let [.., a, b, c, d, _, _, _, _] = *header;
    Parsed::Ipv4(Address::ipv4(u32::from_ne_bytes([a, b, c, d])))
}

/// Bytes of the IPv4 header, as it says itself.
#[inline(always)]
pub(super) fn ipv4_length(header: &[u8; IPV4_HEADER]) -> usize {
    ((header[0] & 0xf) as usize) << 2
}

#[inline(always)]
fn parse_ipv6<B: Bytes>(packet: &B) -> Parsed {
    match packet.peek::<IPV6_HEADER>() {
        Some(header) if header[0] >> 4 == 6 => Parsed::Ipv6(Address::ipv6(words::<8>(header))),
        _ => Parsed::Malformed,
    }
}

/// The address at `AT` of an IPv6 header.
#[inline(always)]
fn words<const AT: usize>(header: &[u8; IPV6_HEADER]) -> Words {
    let word = |at: usize| {
        u64::from_ne_bytes([
            header[at],
            header[at + 1],
            header[at + 2],
            header[at + 3],
            header[at + 4],
            header[at + 5],
            header[at + 6],
            header[at + 7],
        ])
    };
    [word(AT), word(AT + 8)]
}

#[inline(always)]
fn parse_arp<B: Bytes>(packet: &B) -> Parsed {
    match packet.peek::<ARP_HEADER>() {
        Some(&[.., a, b, c, d]) => Parsed::Arp(Address::ipv4(u32::from_ne_bytes([a, b, c, d]))),
        None => Parsed::NotIp,
    }
}

impl Parsed {
    /// The source address, if there is one.
    #[must_use]
    #[inline(always)]
    pub const fn source(&self) -> Option<Address> {
        match self {
            Self::Ipv4(source) | Self::Ipv6(source) | Self::Arp(source) => Some(*source),
            Self::NotIp | Self::Malformed | Self::TooManyTags => None,
        }
    }

    /// The packet, but ARP is [`Self::NotIp`] unless `control` traffic is told apart.
    #[must_use]
    pub const fn with_arp(self, control: bool) -> Self {
        match self {
            Self::Arp(_) if !control => Self::NotIp,
            parsed => parsed,
        }
    }

    /// Reads the source of the packet, which is at its IP header, and its transport header if `transport` is true. None
    /// if it has no source.
    #[must_use]
    pub fn info<B: Bytes>(&self, packet: &mut B, transport: bool) -> Option<PacketInfo> {
        let mut info = PacketInfo::of(self.source()?);
        self.read(packet, transport, &mut info);
        Some(info)
    }

    /// Writes source and, if `transport` is true, the transport header to `info`, which knows nothing yet. Returns
    /// false if there is no source. The packet is at its IP header.
    #[inline(always)]
    pub fn read<B: Bytes>(&self, packet: &mut B, transport: bool, info: &mut PacketInfo) -> bool {
        let Some(source) = self.source() else {
            return false;
        };
        info.source = source;
        match self {
            Self::Ipv4(_) if transport => transport::read_ipv4(packet, info),
            Self::Ipv6(_) if transport => transport::read_ipv6(packet, info),
            Self::Arp(_) => info.control = 1,
            _ => {}
        }
        true
    }
}

/// Reads all of a packet from the Ethernet header on, and writes it to `info`, which knows nothing yet, and to
/// `destination`. Returns whether it is IP, which alone has a destination. Not an [`Option`]: LLVM would read a
/// destination that was never written, before it looks whether there is one, and Linux 6.1 refuses that.
#[inline(always)]
pub fn read<B: Bytes + Copy>(
    packet: &mut B,
    info: &mut PacketInfo,
    destination: &mut Words,
) -> bool {
    match parse(packet) {
        Parsed::Ipv4(source) => {
            info.source = source;
            if let Some(&[.., a, b, c, d]) = packet.peek::<IPV4_HEADER>() {
                *destination = ipv4_words(u32::from_ne_bytes([a, b, c, d]));
            }
            transport::read_ipv4(packet, info);
            true
        }
        Parsed::Ipv6(source) => {
            info.source = source;
            if let Some(header) = packet.peek::<IPV6_HEADER>() {
                *destination = words::<24>(header);
            }
            transport::read_ipv6(packet, info);
            true
        }
        Parsed::Arp(source) => {
            info.source = source;
            info.control = 1;
            false
        }
        Parsed::NotIp | Parsed::Malformed | Parsed::TooManyTags => false,
    }
}
