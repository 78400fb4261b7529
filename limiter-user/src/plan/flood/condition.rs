//! A condition on one field of packets, which a match can express.

use limiter_common::abi::rules::{ANY, FIRST_FRAGMENT, LATER_FRAGMENT, NONE, OF_ICMPV6};
use limiter_config::{
    Match, Protocol, Text, file,
    matches::{
        Destination, Dscp, Hex, IcmpType, IpVersion, Lengths, Payload, PortRange, TcpFlags, Ttl,
    },
};

use super::shape::{Field, HIDDEN, START, Shape, country_code, network};

/// The values that a condition holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Numbers in one of these ranges, both ends included.
    Ranges(Vec<(u64, u64)>),
    /// TCP flags: those that are compared, and those of them that are set.
    Flags {
        /// The flags that are compared.
        mask: u64,
        /// The flags that are set.
        set: u64,
    },
    /// Fragments.
    Fragments,
    /// One of these networks.
    Networks(Vec<u64>),
    /// Bytes of the payload: their hash, and the bytes from the payload's begin on.
    Payload(u64, [u8; START]),
}

/// A condition on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The field.
    pub field: Field,
    /// Its values.
    pub values: Values,
}

impl Condition {
    /// The condition that a number has this value.
    pub fn equal(field: Field, value: u64) -> Self {
        Self {
            field,
            values: Values::Ranges(vec![(value, value)]),
        }
    }

    /// True if it holds for the packet. Fields that cannot be seen hold, as in a limit.
    pub fn holds(&self, shape: &Shape) -> bool {
        let value = shape.value(self.field);
        let (any, none) = (u64::from(ANY), u64::from(NONE));
        match &self.values {
            Values::Fragments => value & u64::from(FIRST_FRAGMENT | LATER_FRAGMENT) != 0,
            Values::Networks(networks) => networks.contains(&value),
            Values::Payload(hash, _) => value == *hash || value == HIDDEN,
            _ if value == any => true,
            _ if value == none => false,
            Values::Flags { mask, set } => value & mask == *set,
            Values::Ranges(ranges) => {
                let mut ranges = ranges.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&value))
            }
        }
    }

    /// Number of values. A range counts as eight: it has more ways to fit by chance.
    pub fn count(&self) -> usize {
        const RANGE: usize = 8;
        match &self.values {
            Values::Ranges(ranges) => {
                let ranges = ranges.iter();
                let counts = ranges.map(|(first, last)| if first == last { 1 } else { RANGE });
                counts.sum()
            }
            Values::Networks(networks) => networks.len(),
            _ => 1,
        }
    }

    /// The values in words, as in a match.
    pub fn shown(&self) -> String {
        if let (Values::Payload(_, start), Some((first, end))) = (&self.values, self.field.window())
        {
            return format!("{} at {first}", Hex(start[first..end].to_vec()));
        }
        if let (Values::Ranges(ranges), true) = (&self.values, self.field.is_of_places()) {
            let number = ranges.first().map_or(0, |(first, _)| *first);
            return match self.field {
                Field::Country => country_code(number),
                _ => format!("AS{number}"),
            };
        }
        let mut matches = Match::default();
        self.narrow(&mut matches);
        let text = file::matches(&matches);
        let (_, value) = text.split_once(" = ").unwrap_or_default();
        value.trim_end_matches(" }").replace('"', "")
    }

    /// Adds the condition to a match.
    pub fn narrow(&self, matches: &mut Match) {
        match (&self.values, self.field) {
            (Values::Fragments, _) => matches.fragments = Some(true),
            (Values::Flags { mask, set }, _) => {
                let bits = |bits: u64| u8::try_from(bits).unwrap_or(0);
                matches.tcp_flags = Some(TcpFlags {
                    set: bits(*set),
                    looked_at: bits(*mask),
                });
            }
            (Values::Networks(networks), field) => {
                let prefixes = networks.iter().filter_map(|number| network(field, *number));
                let prefixes = prefixes.map(Destination::Prefix).collect();
                match field {
                    Field::Source => matches.source = prefixes,
                    _ => matches.destination = prefixes,
                }
            }
            (Values::Payload(_, start), field) => {
                let (first, end) = field.window().unwrap_or_default();
                matches.payload = Some(Payload {
                    offset: u8::try_from(first).unwrap_or(0),
                    bytes: Hex(start[first..end].to_vec()),
                    mask: None,
                });
            }
            (Values::Ranges(ranges), field) => narrow_numbers(matches, field, ranges),
        }
    }
}

/// Adds ranges of a field to a match.
fn narrow_numbers(matches: &mut Match, field: Field, ranges: &[(u64, u64)]) {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let ends = || {
        ranges
            .iter()
            .map(|(first, last)| (small(*first), small(*last)))
    };
    let (first, _) = ranges.first().copied().unwrap_or_default();
    match field {
        Field::Protocol => matches.protocol = u8::try_from(first).ok().map(Protocol),
        Field::SourcePort => {
            matches.source_port = ends()
                .map(|(first, last)| PortRange { first, last })
                .collect();
        }
        Field::DestinationPort => {
            matches.destination_port = ends()
                .map(|(first, last)| PortRange { first, last })
                .collect();
        }
        Field::Length => {
            matches.length = ends()
                .map(|(first, last)| Lengths { first, last })
                .collect();
        }
        Field::Ttl => {
            matches.ttl = ends().map(|(first, last)| Ttl { first, last }).collect();
        }
        Field::Dscp => {
            let values = ranges.iter().map(|(first, _)| first.to_string());
            let values = values.filter_map(|text| Dscp::read(&text).ok());
            matches.dscp = values.collect();
        }
        Field::IcmpType => {
            let types = ranges.iter().map(|(first, _)| icmp_type(small(*first)));
            matches.icmp_type = types.collect();
        }
        Field::IpVersion => {
            matches.ip_version = Some(match first {
                4 => IpVersion::V4,
                _ => IpVersion::V6,
            });
        }
        _ => {}
    }
}

/// The type with this number, as packets have it. As text, it is a type of both ICMP and ICMPv6, so a match also needs the
/// protocol.
fn icmp_type(number: u32) -> IcmpType {
    let text = (number % OF_ICMPV6).to_string();
    IcmpType::read(&text).unwrap_or(IcmpType {
        icmp: None,
        icmpv6: None,
    })
}
