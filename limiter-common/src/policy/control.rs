//! Recognises control traffic, by what routers do not forward: packets of the link itself, and those of routing protocols
//! that are exempt by name.

use core::mem::offset_of;

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

use super::{
    Bytes, PacketInfo,
    client::{self, DHCP, DHCPV6},
    protocols::{ICMPV6, IGMP, OSPF, TCP, UDP, VRRP},
};
use crate::{
    abi::{
        Constants,
        rules::{
            ANY, CONTROL_BANNED, CONTROL_LINK, CONTROL_NEAR, CONTROL_ROUTING, NEEDS_BFD,
            NEEDS_CONTROL, NEEDS_OSPF, NEEDS_VRRP,
        },
    },
    table::{
        Seed,
        key::{IPV4, is_link_local},
    },
};

/// Bits of `Constants::needs` with which control traffic is recognised.
pub const NEEDS: u32 = NEEDS_CONTROL | NEEDS_VRRP | NEEDS_OSPF | NEEDS_BFD;

/// The highest TTL. Routers lower it, so that the sender is on the link (RFC 5082).
const HIGHEST: u32 = 255;
/// The TTL of packets for the link. A sender that knows its distance can make it.
const LOWEST: u32 = 1;

/// Ports of BFD over one hop (RFC 5881) and on the links of a bond (RFC 7130).
pub const BFD: [u32; 2] = [3_784, 6_784];

/// Types of ICMPv6 with hop limit 255: neighbour discovery (RFC 4861), also inverse (RFC 3122) and secure (RFC 3971).
pub const NEIGHBOURS: [u32; 9] = [133, 134, 135, 136, 137, 141, 142, 148, 149];
/// Types of ICMPv6 with hop limit 1, from the link: multicast listeners (RFC 2710, RFC 3810) and router discovery (RFC 4286).
pub const LISTENERS: [u32; 7] = [130, 131, 132, 143, 151, 152, 153];

/// The first of these types, and one more than the last.
const TYPES: [u32; 2] = [130, 154];

/// A bit for each of these types.
const fn bits(types: &[u32]) -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < types.len() {
        bits |= 1 << (types[index] - TYPES[0]);
        index += 1;
    }
    bits
}

/// True if a packet with these fields may be control traffic. Other packets cost no more than this.
#[inline(always)]
pub const fn may_be(info: &PacketInfo) -> bool {
    match info.protocol {
        TCP => false,
        UDP => matches!(info.destination_port, 67 | 68 | 546 | 547 | 3_784 | 6_784),
        _ => true,
    }
}

/// A packet whose control traffic is recognised.
pub trait Recognised: Bytes + Copy {
    /// [`client::number`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn client(frame: &Self, message: &Self, info: &PacketInfo, seed: &Seed) -> u32 {
        client::number(frame, message, info, seed)
    }

    /// [`recognise`], with the beginning of the frame and of its message, `behind` bytes after the IP header. The kernel
    /// program overrides it with a separate function.
    #[inline(always)]
    fn control(
        frame: &Self,
        message: &Self,
        behind: u32,
        info: &PacketInfo,
        constants: &Constants,
    ) -> u32 {
        let mut header = *frame;
        let bytes = frame.remaining() - message.remaining();
        header.skip(bytes - behind as usize);
        recognise([frame, &header, message], info, constants)
    }
}

impl Recognised for &[u8] {}

/// Bits of [`recognise`] for the kind of control traffic. The number of its client is above.
pub const KIND_BITS: u32 = 8;

/// The kind of control traffic, and its client ([`super::client::number`]). `frame` is at the beginning of the frame, `header` at
/// its IP or ARP header, and `message` at its ARP or transport header.
#[inline(always)]
pub fn recognise<B: Recognised>(
    [frame, header, message]: [&B; 3],
    info: &PacketInfo,
    constants: &Constants,
) -> u32 {
    // ARP has no protocol of IP.
    let kind = if info.protocol == ANY {
        info.control
    } else if info.source.family == IPV4 {
        Fixed::of_ipv4(header).map_or(0, |fixed| fixed.control_ipv4(constants.needs, info))
    } else {
        Fixed::of_ipv6(header).map_or(0, |fixed| {
            fixed.control_ipv6(message, constants.needs, info)
        })
    };
    if kind & CONTROL_LINK == 0 {
        return kind;
    }
    kind | B::client(frame, message, info, &constants.seed) << KIND_BITS
}

/// Fields of the fixed part of an IP header.
#[derive(Clone, Copy)]
struct Fixed {
    /// TTL or hop limit.
    hops: u32,
    /// The first bytes of the destination: three of IPv4, two of IPv6.
    group: u32,
}

impl Fixed {
    #[inline(always)]
    fn of_ipv4<B: Bytes>(header: &B) -> Option<Self> {
        const AT: usize = offset_of!(Ipv4Hdr, dst_addr);
        let header = header.peek::<{ Ipv4Hdr::LEN }>()?;
        Some(Self {
            hops: header[offset_of!(Ipv4Hdr, ttl)].into(),
            group: u32::from_be_bytes([0, header[AT], header[AT + 1], header[AT + 2]]),
        })
    }

    #[inline(always)]
    fn of_ipv6<B: Bytes>(header: &B) -> Option<Self> {
        const AT: usize = offset_of!(Ipv6Hdr, dst_addr);
        let header = header.peek::<{ Ipv6Hdr::LEN }>()?;
        Some(Self {
            hops: header[offset_of!(Ipv6Hdr, hop_limit)].into(),
            group: u16::from_be_bytes([header[AT], header[AT + 1]]).into(),
        })
    }

    /// The kind of control traffic of an IPv4 packet, whose transport header has been read.
    #[inline(always)]
    fn control_ipv4(self, needs: u32, info: &PacketInfo) -> u32 {
        /// 224.0.0.0/4 and 224.0.0.0/24, which no router forwards.
        const GROUPS: u32 = 0xe;
        const LOCAL_GROUPS: u32 = 0xe0_0000;
        let is_near = self.hops == HIGHEST;
        match info.protocol {
            UDP => self.of_ports(needs, info, DHCP, info.source.words[0] != 0),
            // RFC 3376, section 4.
            IGMP if needs & NEEDS_CONTROL != 0
                && self.hops == LOWEST
                && self.group >> 20 == GROUPS =>
            {
                CONTROL_LINK | CONTROL_NEAR
            }
            // RFC 5798, section 5.1.1.3.
            VRRP if needs & NEEDS_VRRP != 0 && is_near => CONTROL_ROUTING,
            // RFC 2328, section A.1. With TTL security, 255.
            OSPF if needs & NEEDS_OSPF != 0
                && (self.hops == LOWEST || is_near || self.group == LOCAL_GROUPS) =>
            {
                CONTROL_ROUTING
            }
            _ => 0,
        }
    }

    /// The kind of control traffic of an IPv6 packet, whose transport header has been read, and is next in `packet`.
    #[inline(always)]
    fn control_ipv6<B: Bytes>(self, packet: &B, needs: u32, info: &PacketInfo) -> u32 {
        /// ff02::/16, with any flags.
        const LOCAL_GROUPS: u32 = 0xff02;
        let is_near = self.hops == HIGHEST;
        let words = &info.source.words;
        // No router forwards packets from such a source (RFC 4291, section 2.5.6).
        let is_local = is_link_local(words);
        match info.protocol {
            UDP => self.of_ports(needs, info, DHCPV6, !is_local && words[0] | words[1] != 0),
            ICMPV6 if needs & NEEDS_CONTROL != 0 => {
                let types = match self.hops {
                    HIGHEST => const { bits(&NEIGHBOURS) },
                    LOWEST if is_local || words[0] | words[1] == 0 => const { bits(&LISTENERS) },
                    _ => return 0,
                };
                let Some([kind]) = packet.peek::<1>() else {
                    return 0;
                };
                let number = u32::from(*kind).wrapping_sub(TYPES[0]);
                if number < TYPES[1] - TYPES[0] && types >> number & 1 != 0 {
                    CONTROL_LINK | CONTROL_NEAR
                } else {
                    0
                }
            }
            VRRP if needs & NEEDS_VRRP != 0 && is_near => CONTROL_ROUTING,
            // RFC 5340, section 2.5.
            OSPF if needs & NEEDS_OSPF != 0
                && (is_local || is_near || self.group & 0xff0f == LOCAL_GROUPS) =>
            {
                CONTROL_ROUTING
            }
            _ => 0,
        }
    }

    /// The kind of control traffic of a UDP packet. `routable`: its source is an address that may be far away.
    ///
    /// Such a sender of DHCP may be on a list: its requests are dropped. Its answers are not: a list of everything but a
    /// few sources would cost the host its address. A ban names its source, and holds for both.
    #[inline(always)]
    fn of_ports(
        self,
        needs: u32,
        info: &PacketInfo,
        [server, client]: [u32; 2],
        routable: bool,
    ) -> u32 {
        let port = info.destination_port;
        if needs & NEEDS_CONTROL != 0 && (port == server || port == client) {
            return match (routable, port == server) {
                (false, _) => CONTROL_LINK | CONTROL_NEAR,
                (true, true) => CONTROL_LINK,
                (true, false) => CONTROL_LINK | CONTROL_BANNED,
            };
        }
        if needs & NEEDS_BFD != 0 && self.hops == HIGHEST && (port == BFD[0] || port == BFD[1]) {
            CONTROL_ROUTING
        } else {
            0
        }
    }
}
