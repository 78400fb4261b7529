//! What a packet is, read by another parser (etherparse) and byte by byte behind the IP header.

use std::net::{IpAddr, Ipv4Addr};

use etherparse::{EtherType, Ipv4HeaderSlice, Ipv6HeaderSlice};

/// Where a packet stands in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is all of it.
    Whole,
    /// The first fragment.
    First,
    /// Another fragment.
    Later,
}

/// What is known of an IP packet.
#[derive(Clone, Debug)]
pub struct Ip {
    /// Its source.
    pub source: IpAddr,
    /// What follows the IP header; nothing where nobody can tell, or did not find out.
    pub behind: Behind,
}

/// What follows the IP header and its extensions.
#[derive(Clone, Debug)]
pub enum Behind {
    /// It is cut short, or hidden behind too many extensions.
    Hidden,
    /// What can be told.
    Transport(Transport),
}

/// The transport header.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    /// Number of the protocol; nothing where an extension follows in another fragment.
    pub protocol: Option<u8>,
    /// Source and destination.
    pub ports: Option<(u16, u16)>,
    /// Of TCP.
    pub flags: Option<u8>,
    /// Which part of a datagram it is.
    pub place: Place,
    /// Neighbour discovery or DHCP.
    pub control: bool,
}

/// A frame.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Nothing that a limit holds.
    NotIp,
    /// IP that cannot be.
    Malformed,
    /// From this address.
    Arp(Ipv4Addr),
    /// IP.
    Ip(Ip),
}

/// Reads a frame.
pub fn read(frame: &[u8]) -> Seen {
    let mut at = 12;
    let mut ether_type = match short(frame, at) {
        Some(ether_type) => ether_type,
        None => return Seen::NotIp,
    };
    for _ in 0..2 {
        if ether_type != EtherType::VLAN_TAGGED_FRAME.0
            && ether_type != EtherType::PROVIDER_BRIDGING.0
        {
            break;
        }
        at += 4;
        ether_type = match short(frame, at) {
            Some(ether_type) => ether_type,
            None => return Seen::Malformed,
        };
    }
    let rest = &frame[at + 2..];
    match EtherType(ether_type) {
        EtherType::IPV4 => ipv4(rest).map_or(Seen::Malformed, Seen::Ip),
        EtherType::IPV6 => ipv6(rest).map_or(Seen::Malformed, Seen::Ip),
        // From RFC 826: 8 bytes of what it is about, the sender's hardware address, its address.
        EtherType::ARP => match rest.get(14..18) {
            Some(sender) => Seen::Arp([sender[0], sender[1], sender[2], sender[3]].into()),
            None => Seen::NotIp,
        },
        _ => Seen::NotIp,
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([two[0], two[1]]))
}

fn ipv4(bytes: &[u8]) -> Option<Ip> {
    let header = Ipv4HeaderSlice::from_slice(bytes).ok()?;
    let place = match (
        header.fragments_offset().value() > 0,
        header.more_fragments(),
    ) {
        (true, _) => Place::Later,
        (false, true) => Place::First,
        (false, false) => Place::Whole,
    };
    let rest = &bytes[header.slice().len()..];
    Some(Ip {
        source: header.source_addr().into(),
        behind: transport(rest, header.protocol().0, place, |ports, _| {
            matches!(ports, Some((_, 67 | 68)))
        }),
    })
}

fn ipv6(bytes: &[u8]) -> Option<Ip> {
    let header = Ipv6HeaderSlice::from_slice(bytes).ok()?;
    let behind = behind_ipv6(
        &bytes[header.slice().len()..],
        header.next_header().0,
        header.hop_limit(),
    );
    Some(Ip {
        source: header.source_addr().into(),
        behind: behind.unwrap_or(Behind::Hidden),
    })
}

/// Hop-by-hop options, routing, fragment, authentication, destination options.
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];

/// Walks along the extension headers; nothing where one is cut short, or there are more than eight.
fn behind_ipv6(bytes: &[u8], first: u8, hop_limit: u8) -> Option<Behind> {
    let (mut rest, mut next, mut place) = (bytes, first, Place::Whole);
    for walked in 0.. {
        if !EXTENSIONS.contains(&next) {
            break;
        }
        if walked == 8 {
            return None;
        }
        let header = rest.get(..8)?;
        let units = usize::from(header[1]);
        let size = match next {
            44 => 8,
            51 => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        if next == 44 {
            place = match (short(header, 2)? >> 3 > 0, header[3] & 1 == 1) {
                (true, _) => Place::Later,
                (false, true) => Place::First,
                // What it is already, by another such header.
                (false, false) => place,
            };
        }
        next = header[0];
        rest = rest.get(size..).unwrap_or_default();
        if place == Place::Later {
            return Some(Behind::Transport(Transport {
                protocol: (!EXTENSIONS.contains(&next)).then_some(next),
                ports: None,
                flags: None,
                place,
                control: false,
            }));
        }
    }
    Some(transport(rest, next, place, |ports, rest| {
        let discovery = next == 58 && hop_limit == 255 && matches!(rest.first(), Some(133..=137));
        discovery || matches!(ports, Some((_, 546 | 547)))
    }))
}

/// Ports and flags of TCP, UDP, DCCP, SCTP and UDP-Lite. `control` is asked with the ports of UDP alone.
fn transport(
    rest: &[u8],
    protocol: u8,
    place: Place,
    control: impl Fn(Option<(u16, u16)>, &[u8]) -> bool,
) -> Behind {
    let mut seen = Transport {
        protocol: Some(protocol),
        ports: None,
        flags: None,
        place,
        control: false,
    };
    if place == Place::Later {
        return Behind::Transport(seen);
    }
    if [6, 17, 33, 132, 136].contains(&protocol) {
        let (Some(from), Some(to)) = (short(rest, 0), short(rest, 2)) else {
            return Behind::Hidden;
        };
        seen.ports = Some((from, to));
    }
    if protocol == 6 {
        let Some(flags) = rest.get(13) else {
            return Behind::Hidden;
        };
        seen.flags = Some(*flags);
    }
    seen.control = control(seen.ports.filter(|_| protocol == 17), rest);
    Behind::Transport(seen)
}
