//! Reads the fields of a packet by another parser (etherparse), and byte by byte after the IP header.

use std::net::{IpAddr, Ipv4Addr};

use etherparse::{EtherType, Ipv4HeaderSlice, Ipv6HeaderSlice};

use super::control::{Client, Kind, client, kind_v4, kind_v6};

/// Position of a packet in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole datagram.
    Whole,
    /// The first fragment.
    First,
    /// Another fragment.
    Later,
}

/// A field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<T> {
    /// The field cannot be read and may have any value.
    Unseen,
    /// The protocol has no such field.
    None,
    /// The field's value.
    Is(T),
}

impl<T> Field<T> {
    /// True if the field has a value that satisfies `holds`, or `unseen` if it cannot be read.
    pub fn is(&self, unseen: bool, holds: impl FnOnce(&T) -> bool) -> bool {
        match self {
            Self::Unseen => unseen,
            Self::None => false,
            Self::Is(value) => holds(value),
        }
    }
}

/// Fields of an IP packet.
#[derive(Clone, Debug)]
pub struct Ip {
    /// The source.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// The header after the IP header.
    pub transport: Transport,
}

/// The transport header.
#[derive(Clone, Copy, Debug)]
pub struct Transport {
    /// Number of the protocol.
    pub protocol: Field<u8>,
    /// Source and destination port.
    pub ports: Field<(u16, u16)>,
    /// TCP flags.
    pub flags: Field<u8>,
    /// Position in the datagram.
    pub place: Field<Place>,
    /// The kind of control traffic, if it is any.
    pub control: Option<Kind>,
    /// The client that a DHCP message names.
    pub client: Option<Client>,
    /// Bytes of the IP packet, from its header.
    pub length: Field<u32>,
    /// TTL or hop limit.
    pub ttl: u8,
    /// The upper six bits of the traffic class.
    pub dscp: u8,
    /// True for ICMPv6, and the type of the message.
    pub icmp: Field<(bool, u8)>,
    /// Bytes after the header of UDP or TCP.
    pub payload: Payload,
    /// Number of bytes after the header of UDP, TCP, ICMP or ICMPv6.
    pub payload_length: Field<u32>,
    /// The VLAN; none for an untagged packet. Tags with id 0 only have a priority.
    pub vlan: Option<u16>,
}

/// The payload.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    /// The first bytes.
    pub bytes: [u8; 64],
    /// Number of the readable ones.
    pub length: usize,
    /// True if other fragments may have more, or the header cannot be read.
    pub hidden: bool,
}

impl Payload {
    const HIDDEN: Self = Self {
        bytes: [0; 64],
        length: 0,
        hidden: true,
    };
}

impl Transport {
    /// A transport header without readable fields.
    pub const UNSEEN: Self = Self {
        protocol: Field::Unseen,
        ports: Field::Unseen,
        flags: Field::Unseen,
        place: Field::Unseen,
        control: None,
        client: None,
        length: Field::Is(0),
        ttl: 0,
        dscp: 0,
        icmp: Field::Unseen,
        payload: Payload::HIDDEN,
        payload_length: Field::Unseen,
        vlan: None,
    };
}

/// Result of reading a frame.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A frame that no limit applies to.
    NotIp,
    /// A malformed IP packet.
    Malformed,
    /// A frame with more tags than the program reads.
    TooManyTags,
    /// An ARP packet from this address and hardware address.
    Arp(Ipv4Addr, [u8; 6]),
    /// An IP packet.
    Ip(Ip),
}

/// Reads a frame.
pub fn read(frame: &[u8]) -> Seen {
    let mut offset = 12;
    let mut ether_type = match short(frame, offset) {
        Some(ether_type) => ether_type,
        None => return Seen::NotIp,
    };
    let mut tags = 0;
    let mut vlan = None;
    while [EtherType::VLAN_TAGGED_FRAME, EtherType::PROVIDER_BRIDGING]
        .contains(&EtherType(ether_type))
    {
        tags += 1;
        if tags > 8 {
            return Seen::TooManyTags;
        }
        let id = short(frame, offset + 2).map(|tag| tag & 0xfff);
        vlan = vlan.or(id.filter(|id| *id != 0));
        offset += 4;
        ether_type = match short(frame, offset) {
            Some(ether_type) => ether_type,
            None => return Seen::Malformed,
        };
    }
    let rest = &frame[offset + 2..];
    let tagged = |mut ip: Ip| {
        ip.transport.vlan = vlan;
        Seen::Ip(ip)
    };
    match EtherType(ether_type) {
        EtherType::IPV4 => ipv4(rest).map_or(Seen::Malformed, tagged),
        EtherType::IPV6 => ipv6(rest).map_or(Seen::Malformed, tagged),
        // RFC 826: 8 bytes of fixed fields, the sender's hardware address, and the sender's protocol address.
        EtherType::ARP => match (six(rest, 8), rest.get(14..18)) {
            (Some(hardware), Some(sender)) => Seen::Arp(
                [sender[0], sender[1], sender[2], sender[3]].into(),
                hardware,
            ),
            _ => Seen::NotIp,
        },
        _ => Seen::NotIp,
    }
}

/// A hardware address.
pub fn six(bytes: &[u8], offset: usize) -> Option<[u8; 6]> {
    bytes.get(offset..offset + 6)?.try_into().ok()
}

fn short(bytes: &[u8], offset: usize) -> Option<u16> {
    let two = bytes.get(offset..offset + 2)?;
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
    let begin = header.slice().len();
    // 0: too long for the field.
    let length = match header.total_len() {
        0 => None,
        length => Some(usize::from(length)),
    };
    let received = received(bytes, begin, length, place);
    let rest = [bytes, received].map(|bytes| &bytes[begin..]);
    let behind = transport(rest, header.protocol().0, place, |ports, rest| {
        let port = ports.map(|(_, port)| port);
        let kind = kind_v4(&header, port);
        (kind, client(rest, port, header.source_addr().into()))
    });
    Some(Ip {
        source: header.source_addr().into(),
        destination: header.destination_addr().into(),
        transport: Transport {
            length: seen_length(length),
            ttl: header.ttl(),
            dscp: header.dcp().value(),
            icmp: icmp(begin, length, &behind),
            payload: payload(received, begin, length, &behind),
            payload_length: payload_length(bytes, begin, length, &behind),
            ..behind
        },
    })
}

/// The bytes that a receiver uses of the packet in `bytes`, the transport header of which begins at `begin`. Of a first
/// fragment, whole units of eight bytes up to the length of the IP header. Of other packets, all bytes: a receiver
/// discards those whose headers are longer than the packet, and first fragments without eight bytes.
fn received(bytes: &[u8], begin: usize, length: Option<usize>, place: Place) -> &[u8] {
    match length {
        Some(length) if place == Place::First => {
            let units = length.saturating_sub(begin) / 8;
            let end = (begin + units * 8).min(bytes.len());
            bytes.get(..end).unwrap_or(bytes)
        }
        _ => bytes,
    }
}

fn seen_length(length: Option<usize>) -> Field<u32> {
    length.map_or(Field::Unseen, |length| {
        Field::Is(u32::try_from(length).unwrap())
    })
}

/// The payload of the packet in `bytes`, the transport header of which begins at `begin`. `length` is the one of the IP
/// header.
fn payload(bytes: &[u8], begin: usize, length: Option<usize>, behind: &Transport) -> Payload {
    let length = length.unwrap_or(usize::MAX);
    let rest = bytes.get(begin..).unwrap_or_default();
    // The length is in units of eight bytes, as in `received`.
    let length = match behind.place {
        Field::Is(Place::First) => begin + length.saturating_sub(begin) / 8 * 8,
        _ => length,
    };
    let none = Payload {
        hidden: false,
        ..Payload::HIDDEN
    };
    let own_end = end_of_udp(rest, begin, length);
    let (size, end) = match (behind.protocol, behind.ports, rest.get(12)) {
        (Field::Is(6 | 17) | Field::Unseen, Field::Unseen, _) => return Payload::HIDDEN,
        (Field::Is(17), _, _) => (8, own_end),
        // A header has at least 20 bytes (RFC 9293).
        (Field::Is(6), _, Some(byte)) => ((usize::from(byte >> 4) * 4).max(20), length),
        (Field::Is(6), _, None) => return Payload::HIDDEN,
        _ => return none,
    };
    let begin = begin + size;
    let all = end.saturating_sub(begin).min(64);
    let readable = bytes.get(begin..).unwrap_or_default();
    let mut payload = Payload {
        length: all.min(readable.len()),
        ..none
    };
    payload.hidden = behind.place != Field::Is(Place::Whole) || payload.length < all;
    payload.bytes[..payload.length].copy_from_slice(&readable[..payload.length]);
    payload
}

/// The end of a UDP packet, if its header says so.
fn end_of_udp(rest: &[u8], begin: usize, length: usize) -> usize {
    match short(rest, 4) {
        None | Some(0) => length,
        Some(own) => length.min(begin + usize::from(own)),
    }
}

/// The number of bytes after the transport header. Fragments do not show that of their datagram.
fn payload_length(
    bytes: &[u8],
    begin: usize,
    length: Option<usize>,
    behind: &Transport,
) -> Field<u32> {
    let rest = bytes.get(begin..).unwrap_or_default();
    let protocol = match behind.protocol {
        Field::Is(protocol @ (1 | 6 | 17 | 58)) => protocol,
        Field::Is(_) | Field::None => return Field::None,
        Field::Unseen => return Field::Unseen,
    };
    let (Some(length), Field::Is(Place::Whole)) = (length, behind.place) else {
        return Field::Unseen;
    };
    let (header, end) = match (protocol, rest.get(12)) {
        (6, None) => return Field::Unseen,
        (6, Some(byte)) => ((usize::from(byte >> 4) * 4).max(20), length),
        (17, _) => (8, end_of_udp(rest, begin, length)),
        _ => (8, length),
    };
    Field::Is(u32::try_from(end.saturating_sub(begin + header)).unwrap())
}

/// The ICMP type of a packet. It has none if it ends, by its IP header, where the type would be.
fn icmp(begin: usize, length: Option<usize>, behind: &Transport) -> Field<(bool, u8)> {
    let ends = length.is_some_and(|length| length <= begin);
    match behind.icmp {
        _ if ends && behind.place == Field::Is(Place::Whole) => Field::None,
        icmp => icmp,
    }
}

fn ipv6(bytes: &[u8]) -> Option<Ip> {
    let header = Ipv6HeaderSlice::from_slice(bytes).ok()?;
    // A limit cannot tell longer packets apart. Behind hop-by-hop options, 0 is a jumbogram, or pretends to be one.
    let length = match (header.payload_length(), header.next_header().0) {
        (0, 0) => None,
        (payload, _) => Some((40 + usize::from(payload)).min(65_535)),
    };
    let (behind, begin) = after_ipv6(bytes, length, &header);
    let place = match behind.place {
        Field::Is(place) => place,
        _ => Place::Later,
    };
    let received = received(bytes, begin, length, place);
    Some(Ip {
        source: header.source_addr().into(),
        destination: header.destination_addr().into(),
        transport: Transport {
            length: seen_length(length),
            ttl: header.hop_limit(),
            dscp: header.traffic_class() >> 2,
            icmp: icmp(begin, length, &behind),
            payload: payload(received, begin, length, &behind),
            payload_length: payload_length(bytes, begin, length, &behind),
            ..behind
        },
    })
}

/// Hop-by-hop options, routing, fragment, authentication, destination options.
const EXTENSIONS: [u8; 5] = [0, 43, 44, 51, 60];

/// Skips the extension headers, and returns where the transport header begins. No field can be read after a truncated
/// header, a ninth header, or the fragment header of a later fragment. `length` is that of the IP header.
fn after_ipv6(
    bytes: &[u8],
    length: Option<usize>,
    header: &Ipv6HeaderSlice<'_>,
) -> (Transport, usize) {
    let (mut begin, mut next, mut place) = (40, header.next_header().0, None);
    let from = |begin: usize| bytes.get(begin..).unwrap_or_default();
    for walked in 0.. {
        if !EXTENSIONS.contains(&next) {
            break;
        }
        let unseen = Transport {
            place: place.map_or(Field::Unseen, Field::Is),
            ..Transport::UNSEEN
        };
        let (false, Some(extension)) = (walked == 8, from(begin).get(..8)) else {
            return (unseen, begin);
        };
        let units = usize::from(extension[1]);
        let size = match next {
            44 => 8,
            51 => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        if next == 44 {
            let field = u16::from_be_bytes([extension[2], extension[3]]);
            if field >> 3 > 0 {
                let place = Field::Is(Place::Later);
                return (Transport { place, ..unseen }, begin);
            }
            if field & 1 == 1 {
                place = Some(Place::First);
            }
        }
        next = extension[0];
        begin += size;
    }
    let place = place.unwrap_or(Place::Whole);
    let received = received(bytes, begin, length, place);
    let rest = [from(begin), received.get(begin..).unwrap_or_default()];
    let behind = transport(rest, next, place, |ports, rest| {
        let port = ports.map(|(_, port)| port);
        let kind = kind_v6(header, next, port, rest.first().copied());
        (kind, client(rest, port, header.source_addr().into()))
    });
    (behind, begin)
}

/// Ports and flags of TCP, UDP, DCCP, SCTP and UDP-Lite. Calls `control` with the ports of UDP only. `received`: the
/// bytes of `rest` that a receiver uses.
fn transport(
    [rest, received]: [&[u8]; 2],
    protocol: u8,
    place: Place,
    control: impl Fn(Option<(u16, u16)>, &[u8]) -> (Option<Kind>, Option<Client>),
) -> Transport {
    let mut seen = Transport {
        protocol: Field::Is(protocol),
        place: Field::Is(place),
        ..Transport::UNSEEN
    };
    // A later fragment does not contain the header.
    let (rest, received) = match place {
        Place::Later => (&[][..], &[][..]),
        _ => (rest, received),
    };
    seen.ports = match (short(rest, 0), short(rest, 2)) {
        _ if ![6, 17, 33, 132, 136].contains(&protocol) => Field::None,
        (Some(from), Some(destination)) => Field::Is((from, destination)),
        _ => Field::Unseen,
    };
    seen.flags = match received.get(13) {
        _ if protocol != 6 => Field::None,
        Some(flags) => Field::Is(*flags),
        None => Field::Unseen,
    };
    seen.icmp = match received.first() {
        _ if ![1, 58].contains(&protocol) => Field::None,
        Some(kind) => Field::Is((protocol == 58, *kind)),
        None => Field::Unseen,
    };
    let ports = match seen.ports {
        Field::Is(ports) if protocol == 17 => Some(ports),
        _ => None,
    };
    (seen.control, seen.client) = control(ports, rest);
    seen
}
