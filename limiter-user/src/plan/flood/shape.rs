//! The fields of a packet by which a flood is told from ordinary traffic, as numbers.

use std::{
    hash::{DefaultHasher, Hasher as _},
    net::IpAddr,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use limiter_common::{
    abi::{
        Constants,
        rules::{
            NEEDS_BFD, NEEDS_CONTROL, NEEDS_DESTINATION, NEEDS_HEADER, NEEDS_OSPF, NEEDS_TRANSPORT,
            NEEDS_VRRP,
        },
    },
    pod::Pod as _,
    policy::{
        Bytes as _, PacketInfo, Parsed,
        control::{Recognised, may_be},
        parse,
        payload::Payload,
    },
    table::key::{Address, IPV4},
};
use limiter_config::{key::ip, places::Places};
use serde::{Deserialize, Serialize};

use crate::plan::capture::Frame;

/// The constants of the reader of packets. All control traffic is recognised, whatever an interface exempts.
static CONSTANTS: Constants = Constants {
    needs: NEEDS_TRANSPORT
        | NEEDS_DESTINATION
        | NEEDS_HEADER
        | NEEDS_CONTROL
        | NEEDS_VRRP
        | NEEDS_OSPF
        | NEEDS_BFD,
    ..Constants::NONE
};

/// Bytes of the payload that are kept of a packet.
pub const START: usize = 8;

/// A field of packets. Fields that an attacker can hardly change come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum Field {
    /// The transport protocol.
    Protocol,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// TCP flags.
    Flags,
    /// The type of an ICMP message.
    IcmpType,
    /// The place in the datagram: bits as in [`limiter_common::abi::rules::ANYWHERE`].
    Fragment,
    /// A hash of the first 4 bytes of the payload.
    First4,
    /// A hash of the first 8 bytes of the payload.
    First8,
    /// A hash of bytes 2 and 3 of the payload.
    Second2,
    /// Length of the IP packet in bytes.
    Length,
    /// The network of the source: /16 of IPv4, /32 of IPv6.
    Source,
    /// The network of the destination: /24 of IPv4, /64 of IPv6.
    Destination,
    /// The version of IP.
    IpVersion,
    /// The DSCP.
    Dscp,
    /// TTL or hop limit.
    Ttl,
    /// The country of the source, as [`country`] numbers it; 0 if no database knows it.
    Country,
    /// The autonomous system of the source; 0 if no database knows it.
    System,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 17] = [
        Self::Protocol,
        Self::SourcePort,
        Self::DestinationPort,
        Self::Flags,
        Self::IcmpType,
        Self::Fragment,
        Self::First4,
        Self::First8,
        Self::Second2,
        Self::Length,
        Self::Source,
        Self::Destination,
        Self::IpVersion,
        Self::Dscp,
        Self::Ttl,
        Self::Country,
        Self::System,
    ];

    /// The name, as the key of a match.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::SourcePort => "source_port",
            Self::DestinationPort => "destination_port",
            Self::Flags => "tcp_flags",
            Self::IcmpType => "icmp_type",
            Self::Fragment => "fragments",
            Self::First4 | Self::First8 | Self::Second2 => "payload",
            Self::Length => "length",
            Self::Source => "source",
            Self::Destination => "destination",
            Self::IpVersion => "ip_version",
            Self::Dscp => "dscp",
            Self::Ttl => "ttl",
            Self::Country => "country",
            Self::System => "asn",
        }
    }

    /// True for a field that only databases of places know. A rule cannot be about it: a match has lists for that.
    pub const fn is_of_places(self) -> bool {
        matches!(self, Self::Country | Self::System)
    }

    /// The bytes of the payload that the field is a hash of: the first one, and the one behind the last.
    pub const fn window(self) -> Option<(usize, usize)> {
        match self {
            Self::First4 => Some((0, 4)),
            Self::First8 => Some((0, 8)),
            Self::Second2 => Some((2, 4)),
            _ => None,
        }
    }
}

/// The value of a window of payload that the packet does not have.
pub const ABSENT: u64 = 0;
/// The value of a window of payload that cannot be seen, as in a later fragment.
pub const HIDDEN: u64 = u64::MAX;

/// The fields of a packet. It has no address, and no byte of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape([u64; Field::ALL.len()]);

impl Shape {
    /// No packet.
    pub const NONE: Self = Self([0; Field::ALL.len()]);

    /// The value of a field.
    pub const fn value(&self, field: Field) -> u64 {
        self.0[field as usize]
    }

    /// The shape with another value of a field.
    #[must_use]
    pub const fn with(mut self, field: Field, value: u64) -> Self {
        self.0[field as usize] = value;
        self
    }
}

/// A packet of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its fields.
    pub shape: Shape,
    /// The first bytes of its payload; zeros if there are fewer.
    pub start: [u8; START],
    /// Its destination.
    pub destination: IpAddr,
    /// True for control traffic, which no rule may be about.
    pub is_control: bool,
}

impl Packet {
    /// Reads a packet, also as limits have parsed it; none if it is not IP, or malformed. `salt` is that of the payload's
    /// hashes.
    pub fn read(frame: &Frame, salt: u64, places: &Places) -> Option<(Self, PacketInfo)> {
        let whole = &frame.bytes[..];
        let (mut rest, mut info) = (whole, PacketInfo::of(Address::ZEROS));
        let parsed = parse(&mut rest);
        if !matches!(parsed, Parsed::Ipv4(_) | Parsed::Ipv6(_)) {
            return None;
        }
        let from = rest.remaining();
        parsed.read(&mut rest, CONSTANTS.needs, &mut info);
        let header = u32::try_from(from.saturating_sub(rest.remaining())).unwrap_or(0);
        let is_control = may_be(&info)
            && <&[u8] as Recognised>::control(&whole, &rest, header, &info, &CONSTANTS) != 0;
        let mut payload = Payload::ZEROS;
        payload.read(&mut rest, &info, header);
        let start = payload.word(0).to_ne_bytes();
        let destination = ip(info.destination.family, info.destination.words);
        let source = ip(info.source.family, info.source.words);
        let place = places.find(source);
        let mut shape = Shape::NONE;
        for field in Field::ALL {
            let number = match field {
                Field::Protocol => info.protocol,
                Field::SourcePort => info.source_port,
                Field::DestinationPort => info.destination_port,
                Field::Flags => info.flags,
                Field::IcmpType => info.icmp_type,
                Field::Fragment => info.fragment,
                Field::Length => info.length,
                Field::Dscp => info.dscp,
                Field::Ttl => info.ttl,
                Field::IpVersion if info.source.family == IPV4 => 4,
                _ => 6,
            };
            let value = match (field, field.window()) {
                (Field::Source, _) => network_number(source, [16, 32]),
                (Field::Destination, _) => network_number(destination, [24, 64]),
                (Field::Country, _) => place.country.as_deref().map_or(0, country),
                (Field::System, _) => place.system.unwrap_or(0).into(),
                (_, Some(window)) => window_value(&payload, &start, window, salt),
                _ => number.into(),
            };
            shape = shape.with(field, value);
        }
        let packet = Self {
            shape,
            start,
            destination,
            is_control,
        };
        Some((packet, info))
    }
}

/// The value of bytes of the payload.
fn window_value(
    payload: &Payload,
    start: &[u8; START],
    (first, end): (usize, usize),
    salt: u64,
) -> u64 {
    match payload.length as usize >= end {
        true => hash(&start[first..end], salt),
        false if payload.hidden != 0 => HIDDEN,
        false => ABSENT,
    }
}

/// The hash of bytes of a payload: neither [`ABSENT`] nor [`HIDDEN`].
pub fn hash(bytes: &[u8], salt: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(salt);
    hasher.write(bytes);
    hasher.finish().clamp(ABSENT + 1, HIDDEN - 1)
}

/// The number of a country: the letters of its code.
fn country(code: &str) -> u64 {
    let letters = code.bytes();
    letters.fold(0, |number, letter| number << 8 | u64::from(letter))
}

/// The code of the country with this number.
pub fn country_code(number: u64) -> String {
    let letters = number.to_be_bytes().into_iter();
    let letters = letters.filter(|letter| *letter != 0);
    letters.map(char::from).collect()
}

/// A bit that no network of IPv6 has in its number: their first 64 bits are never so small.
const OF_IPV4: u64 = 1 << 40;

/// The number of an address's network, whose prefix has one of these lengths: of IPv4, of IPv6.
fn network_number(address: IpAddr, [v4, v6]: [u32; 2]) -> u64 {
    match address {
        IpAddr::V4(address) => OF_IPV4 | u64::from(address.to_bits() >> (32 - v4)),
        IpAddr::V6(address) => {
            let first = u64::try_from(address.to_bits() >> 64).unwrap_or(0);
            first >> (64 - v6) << (64 - v6)
        }
    }
}

/// The network with this number.
pub fn network(field: Field, number: u64) -> Option<IpNet> {
    let [v4, v6] = match field {
        Field::Source => [16, 32],
        _ => [24, 64],
    };
    if number & !(OF_IPV4 - 1) == OF_IPV4 {
        let bits = u32::try_from(number & (OF_IPV4 - 1)).ok()?;
        let address = bits.checked_shl(32 - u32::from(v4))?.into();
        return Ipv4Net::new(address, v4).ok().map(IpNet::V4);
    }
    let address = (u128::from(number) << 64).into();
    Ipv6Net::new(address, v6).ok().map(IpNet::V6)
}

#[cfg(test)]
mod tests {
    use limiter_common::abi::rules::{ANY, NONE};

    use super::*;
    use crate::plan::capture::Link;

    fn read(hex: &str) -> Packet {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let frame = Link::Raw.frame(&bytes, bytes.len() as u64);
        Packet::read(&frame, 7, &Places::default()).unwrap().0
    }

    #[test]
    fn fields_of_a_packet_are_those_that_limits_compare() {
        let packet = read(
            "45b8 0024 0001 0000 3911 0000 cb007109 c0000217  0035 1f90 0010 0000 ffffffff54536f75",
        );
        let value = |field| packet.shape.value(field);
        for (field, expected) in [
            (Field::Protocol, 17),
            (Field::SourcePort, 53),
            (Field::DestinationPort, 8_080),
            (Field::Flags, NONE.into()),
            (Field::Length, 36),
            (Field::Ttl, 57),
            (Field::Dscp, 46),
            (Field::IpVersion, 4),
            (Field::First8, hash(b"\xff\xff\xff\xffTSou", 7)),
            (Field::First4, hash(b"\xff\xff\xff\xff", 7)),
            (Field::Second2, hash(b"\xff\xff", 7)),
        ] {
            assert_eq!(value(field), expected, "{field:?}");
        }
        let text = |field| network(field, value(field)).unwrap().to_string();
        assert_eq!(text(Field::Source), "203.0.0.0/16");
        assert_eq!(text(Field::Destination), "192.0.2.0/24");
        assert!(!packet.is_control);
    }

    #[test]
    fn countries_are_numbers_and_shown_as_codes() {
        use crate::plan::flood::condition::Condition;

        assert_eq!(country_code(country("CN")), "CN");
        let condition = |field, number| Condition::equal(field, number).shown();
        assert_eq!(condition(Field::Country, country("DE")), "DE");
        assert_eq!(condition(Field::System, 64_500), "AS64500");
        let packet = read("4500 001c 0001 0000 4011 0000 cb007109 c0000217 0035 1f90 0008 0000");
        assert_eq!(packet.shape.value(Field::Country), 0);
    }

    #[test]
    fn later_fragment_hides_ports_and_payload() {
        let packet = read("4500 001c 0001 00b9 4011 0000 cb007109 c0000217 0035 1f90 0008 0000");
        for field in [Field::SourcePort, Field::DestinationPort] {
            assert_eq!(packet.shape.value(field), u64::from(ANY), "{field:?}");
        }
        assert_eq!(packet.shape.value(Field::First4), HIDDEN);
    }

    #[test]
    fn networks_of_both_versions_have_numbers() {
        for (address, source, destination) in [
            ("2001:db8:1:2::9", "2001:db8::/32", "2001:db8:1:2::/64"),
            ("198.51.100.9", "198.51.0.0/16", "198.51.100.0/24"),
            ("0.0.0.1", "0.0.0.0/16", "0.0.0.0/24"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let shown = |field, lengths| network(field, network_number(address, lengths)).unwrap();
            assert_eq!(shown(Field::Source, [16, 32]).to_string(), source);
            assert_eq!(shown(Field::Destination, [24, 64]).to_string(), destination);
        }
    }
}
