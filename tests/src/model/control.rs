//! Models control traffic: its kinds, and the clients that send it without an address or behind a relay.

use std::net::{IpAddr, Ipv4Addr};

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice};
use limiter_common::{policy::client, table::Seed};
use limiter_config::Exempt;

use super::packet::six;

/// A kind of control traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of the link: lists do not decide.
    Link,
    /// DHCP to a server, from an address that may be far away: lists and bans decide first.
    Request,
    /// DHCP to a client, from an address that may be far away: bans decide first.
    Reply,
    Vrrp,
    Ospf,
    Bfd,
}

impl Kind {
    /// True if this kind is exempt.
    pub fn is_exempt(self, exempt: Exempt) -> bool {
        match self {
            Self::Link | Self::Request | Self::Reply => exempt.control,
            Self::Vrrp => exempt.vrrp,
            Self::Ospf => exempt.ospf,
            Self::Bfd => exempt.bfd,
        }
    }

    /// True for VRRP, OSPF and BFD.
    pub fn is_routing(self) -> bool {
        matches!(self, Self::Vrrp | Self::Ospf | Self::Bfd)
    }

    /// True if lists decide first.
    pub fn is_listed(self) -> bool {
        self.is_routing() || self == Self::Request
    }

    fn dhcp(is_request: bool, is_near: bool) -> Self {
        match (is_near, is_request) {
            (true, _) => Self::Link,
            (false, true) => Self::Request,
            (false, false) => Self::Reply,
        }
    }
}

/// The kind of an IPv4 packet to this UDP port.
pub fn kind_v4(header: &Ipv4HeaderSlice<'_>, port: Option<u16>) -> Option<Kind> {
    let (ttl, destination) = (header.ttl(), header.destination_addr());
    let of_link = u32::from(destination) >> 8 == 0xe0_0000;
    match (header.protocol().0, port) {
        (17, Some(port @ (67 | 68))) => {
            let is_near = header.source_addr().is_unspecified();
            Some(Kind::dhcp(port == 67, is_near))
        }
        (17, Some(3_784 | 6_784)) if ttl == 255 => Some(Kind::Bfd),
        (2, _) if ttl == 1 && destination.is_multicast() => Some(Kind::Link),
        (112, _) if ttl == 255 => Some(Kind::Vrrp),
        (89, _) if ttl == 1 || ttl == 255 || of_link => Some(Kind::Ospf),
        _ => None,
    }
}

/// The kind of an IPv6 packet with this protocol, to this UDP port, or with this type of ICMPv6.
pub fn kind_v6(
    header: &Ipv6HeaderSlice<'_>,
    protocol: u8,
    port: Option<u16>,
    icmp: Option<u8>,
) -> Option<Kind> {
    let (hops, source) = (header.hop_limit(), header.source_addr());
    let is_near = source.is_unicast_link_local() || source.is_unspecified();
    match (protocol, port, icmp) {
        (17, Some(port @ (546 | 547)), _) => Some(Kind::dhcp(port == 547, is_near)),
        (17, Some(3_784 | 6_784), _) if hops == 255 => Some(Kind::Bfd),
        (58, _, Some(133..=137 | 141 | 142 | 148 | 149)) if hops == 255 => Some(Kind::Link),
        (58, _, Some(130..=132 | 143 | 151..=153)) if hops == 1 && is_near => Some(Kind::Link),
        (112, ..) if hops == 255 => Some(Kind::Vrrp),
        (89, ..) => {
            let [first, second, ..] = header.destination_addr().octets();
            let of_link = first == 0xff && second & 0xf == 2;
            (hops == 255 || of_link || source.is_unicast_link_local()).then_some(Kind::Ospf)
        }
        _ => None,
    }
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A host without an address, by its hardware address.
    Host([u8; 6]),
    /// The client of a relay, by its hardware address, or the address of the relay's peer.
    Behind(IpAddr, [u8; 16]),
}

/// The client that the UDP packet in `rest` names, if it is DHCP to a server.
pub fn client(rest: &[u8], port: Option<u16>, source: IpAddr) -> Option<Client> {
    let message = rest.get(8..)?;
    match (port?, source) {
        (67, IpAddr::V4(_)) if message.first() == Some(&1) => {
            let hardware = six(message, 28)?;
            let mut identity = [0; 16];
            identity[..6].copy_from_slice(&hardware);
            if source.is_unspecified() {
                Some(Client::Host(hardware))
            } else {
                let is_relayed = message[24..28] != [0; 4];
                is_relayed.then_some(Client::Behind(source, identity))
            }
        }
        (547, IpAddr::V6(_)) if message.first() == Some(&12) => {
            let peer = message.get(18..34)?.try_into().unwrap();
            Some(Client::Behind(source, peer))
        }
        _ => None,
    }
}

impl Client {
    /// The address in the key. Nothing but the program can say in which bucket a client is.
    pub fn address(self, seed: &Seed) -> IpAddr {
        let words = |bytes: [u8; 16]| -> [u64; 2] {
            [0, 8].map(|half| u64::from_ne_bytes(bytes[half..half + 8].try_into().unwrap()))
        };
        let number = match self {
            Self::Host(hardware) => client::host(client::word(&hardware), seed),
            Self::Behind(IpAddr::V4(relay), identity) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&relay.octets());
                let hardware = identity[..6].try_into().unwrap();
                client::behind(words(bytes), [client::word(hardware), 0], seed)
            }
            Self::Behind(IpAddr::V6(relay), identity) => {
                client::behind(words(relay.octets()), words(identity), seed)
            }
        };
        IpAddr::V4(Ipv4Addr::from(number))
    }
}
