//! The headers of a merged packet, one behind the other: tags, IP, extension headers, tunnels.

use network_types::{
    eth::{EthHdr, EtherType},
    ip::Ipv6Hdr,
    udp::UdpHdr,
    vlan::VlanHdr,
};

use super::{
    merged::{Merged, Walk},
    protocols::{
        AUTHENTICATION, DESTINATION, ESP, FRAGMENT, GRE, HOP_BY_HOP, IPV4_IN_IP, IPV6_IN_IP,
        ROUTING, UDP, length, number as number_of,
    },
};

// EtherTypes.
/// An Ethernet header, as tunnels name it (transparent Ethernet bridging).
pub const ETHERNET: u32 = 0x6558;
const VLAN: u32 = number_of(EtherType::Ieee8021q);
const SERVICE_VLAN: u32 = number_of(EtherType::Ieee8021ad);
const IPV4: u32 = number_of(EtherType::Ipv4);
const IPV6: u32 = number_of(EtherType::Ipv6);
const MPLS: u32 = 0x8847;
const PPPOE: u32 = 0x8864;
/// Smaller numbers are lengths, not EtherTypes.
const ETHER_TYPES: u32 = 0x600;

/// Bytes of a UDP header.
pub(super) const UDP_HEADER: u32 = length(UdpHdr::LEN);
/// Packets up to this many bytes have no jumbo header.
const JUMBO: u32 = 65_536;
/// Beginning of the hop-by-hop header that the kernel puts into longer ones: TCP follows, one option (RFC 2675).
const JUMBO_HEADER: u64 = 0x0600_c204;

/// Kind of a header that is unknown.
pub(super) const UNKNOWN: u32 = 0xffff;
/// Kind of the end of the headers: payload.
pub(super) const PAYLOAD: u32 = 0xfffe;

/// The number in so many bits of a word, behind so many others.
#[expect(clippy::cast_possible_truncation, reason = "at most 32 bits")]
#[inline(always)]
pub(super) const fn number(word: u64, begin: u32, bits: u32) -> u32 {
    (word << begin >> (64 - bits)) as u32
}

/// A header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Offset in the packet, in bytes.
    pub offset: u32,
    /// EtherType, or protocol of IP.
    pub kind: u32,
    /// True if the last IP header in front of it is IPv6.
    pub is_ipv6: bool,
    /// True if headers in front of it have eight bytes that segments do not have.
    pub is_jumbo: bool,
    /// True if it is behind an encryption header (ESP).
    pub is_encrypted: bool,
}

/// A merged packet's bytes.
pub trait Headers {
    /// Bytes of the packet.
    fn length(&self) -> u32;

    /// Eight bytes at an offset, in network byte order. None if the packet has fewer.
    fn bytes(&self, offset: u32) -> Option<u64>;

    /// [`Header::next`], both as words. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn next(&self, header: u64) -> u64
    where
        Self: Sized,
    {
        Header::from_word(header).next(self).to_word()
    }

    /// [`Merged::step`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn step(&self, merged: &Merged, walk: &mut Walk) -> bool
    where
        Self: Sized,
    {
        merged.step(walk, self)
    }
}

impl Header {
    /// The first header of a packet.
    #[inline(always)]
    pub const fn first(kind: u32) -> Self {
        Self {
            offset: 0,
            kind,
            is_ipv6: false,
            is_jumbo: false,
            is_encrypted: false,
        }
    }

    /// The header as one word.
    #[inline(always)]
    pub const fn to_word(self) -> u64 {
        (self.offset as u64) << 32
            | (self.is_encrypted as u64) << 18
            | (self.is_ipv6 as u64) << 17
            | (self.is_jumbo as u64) << 16
            | self.kind as u64
    }

    /// The header of [`Self::to_word`].
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self {
            offset: number(word, 0, 32),
            kind: number(word, 48, 16),
            is_ipv6: word >> 17 & 1 != 0,
            is_jumbo: word >> 16 & 1 != 0,
            is_encrypted: word >> 18 & 1 != 0,
        }
    }

    /// The header behind this one. Behind UDP, it is that of a tunnel, or payload.
    #[inline(always)]
    pub fn next(self, headers: &impl Headers) -> Self {
        match self.kind {
            UDP => self.in_tunnel(headers).unwrap_or(Self {
                kind: PAYLOAD,
                ..self
            }),
            ESP => Self {
                is_encrypted: true,
                ..self.unknown()
            },
            _ => self.behind(headers).unwrap_or(self.unknown()),
        }
    }

    /// An unknown header at this place.
    #[inline(always)]
    pub const fn unknown(self) -> Self {
        Self {
            kind: UNKNOWN,
            ..self
        }
    }

    #[inline(always)]
    const fn then(self, bytes: u32, kind: u32) -> Option<Self> {
        Some(Self {
            offset: self.offset + bytes,
            kind,
            ..self
        })
    }

    #[inline(always)]
    const fn then_ether_type(self, bytes: u32, kind: u32) -> Option<Self> {
        if kind < ETHER_TYPES {
            return None;
        }
        self.then(bytes, kind)
    }

    #[inline(always)]
    fn behind(mut self, headers: &impl Headers) -> Option<Self> {
        let word = headers.bytes(self.offset)?;
        let field = |begin, bits| number(word, begin, bits);
        match self.kind {
            ETHERNET => self.then_ether_type(
                length(EthHdr::LEN),
                number(headers.bytes(self.offset + 6)?, 48, 16),
            ),
            VLAN | SERVICE_VLAN => self.then_ether_type(length(VlanHdr::LEN), field(16, 16)),
            IPV4 => {
                self.is_ipv6 = false;
                self.then(
                    field(4, 4) * 4,
                    number(headers.bytes(self.offset + 8)?, 8, 8),
                )
            }
            IPV6 => {
                self.is_ipv6 = true;
                self.then(length(Ipv6Hdr::LEN), field(48, 8))
            }
            MPLS => match (field(23, 1), field(32, 4)) {
                (0, _) => self.then(4, MPLS),
                (_, 4) => self.then(4, IPV4),
                (_, 6) => self.then(4, IPV6),
                _ => None,
            },
            PPPOE => match field(48, 16) {
                0x21 => self.then(8, IPV4),
                0x57 => self.then(8, IPV6),
                _ => None,
            },
            IPV4_IN_IP => self.then(0, IPV4),
            IPV6_IN_IP => self.then(0, IPV6),
            // Version 0 without routing. Checksum, key and sequence number are there if their bits are.
            GRE if field(1, 1) == 0 && field(13, 3) == 0 => {
                let options = field(0, 1) + field(2, 1) + field(3, 1);
                self.then_ether_type(4 + options * 4, field(16, 16))
            }
            HOP_BY_HOP | ROUTING | DESTINATION => {
                if self.kind == HOP_BY_HOP && headers.length() > JUMBO {
                    self.is_jumbo |= word >> 32 == JUMBO_HEADER;
                }
                self.then((field(8, 8) + 1) * 8, field(0, 8))
            }
            FRAGMENT => self.then(8, field(0, 8)),
            AUTHENTICATION => self.then((field(8, 8) + 2) * 4, field(0, 8)),
            _ => None,
        }
    }

    /// The header in the payload of this UDP header, if it looks like a tunnel's: vxlan, geneve, MPLS, or an IP packet of
    /// the right length, also behind a few bytes of GUE or GRE.
    #[inline(always)]
    fn in_tunnel(self, headers: &impl Headers) -> Option<Self> {
        /// Destination port of MPLS (RFC 7510).
        const MPLS_PORT: u32 = 6_635;
        let (ports, word) = (
            headers.bytes(self.offset)?,
            headers.bytes(self.offset + UDP_HEADER)?,
        );
        let field = |begin, bits| number(word, begin, bits);
        if number(ports, 16, 16) == MPLS_PORT {
            return self.then(UDP_HEADER, MPLS);
        }
        let ether_type = field(16, 16);
        // RFC 7348, with or without a group policy; and the generic protocol extension.
        let is_vxlan =
            field(56, 8) == 0 && (field(0, 32) == 0x0800_0000 || field(0, 16) & 0xffb7 == 0x8800);
        if is_vxlan {
            self.then(UDP_HEADER + 8, ETHERNET)
        } else if field(0, 24) == 0x000c_0000 && field(56, 8) == 0 {
            match field(24, 8) {
                1 => self.then(UDP_HEADER + 8, IPV4),
                2 => self.then(UDP_HEADER + 8, IPV6),
                3 => self.then(UDP_HEADER + 8, ETHERNET),
                _ => self.then(UDP_HEADER + 8, UNKNOWN),
            }
        } else if field(0, 2) == 0
            && field(10, 6) == 0
            && matches!(ether_type, ETHERNET | IPV4 | IPV6)
            && field(56, 8) == 0
        {
            // RFC 8926.
            self.then(UDP_HEADER + 8 + field(2, 6) * 4, ether_type)
        } else {
            for more in [0, 4, 8, 12, 16] {
                let begin = UDP_HEADER + more;
                let word = headers.bytes(self.offset + begin)?;
                let rest = u64::from(headers.length().saturating_sub(self.offset + begin));
                if word >> 60 == 4 && word >> 32 & 0xffff == rest {
                    return self.then(begin, IPV4);
                }
                if word >> 60 == 6 && (word >> 16 & 0xffff) + 40 == rest {
                    return self.then(begin, IPV6);
                }
            }
            None
        }
    }
}
