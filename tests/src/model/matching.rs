//! Models the matches of limits.

use std::net::IpAddr;

use limiter_config::{
    Limit, Lists, Match,
    key::Parts,
    matches::{Destination, IcmpType, IpVersion, Payload, PortRange},
};

use super::{
    listed,
    packet::{self, Field, Place, Transport},
};

/// True if the limit reads anything besides the addresses.
pub fn reads_transport(limit: &Limit) -> bool {
    let reads = |matches: &Match| {
        let addresses = Match {
            source: matches.source.clone(),
            unless: matches.unless.clone(),
            destination: matches.destination.clone(),
            ip_version: matches.ip_version,
            not: matches.not.clone(),
            ..Match::default()
        };
        *matches != addresses
    };
    let not = limit.matches.not.as_deref();
    limit.key.by_port
        || limit.key.by_vlan
        || limit.key.parts == Parts::Flow
        || reads(&limit.matches)
        || not.is_some_and(reads)
}

/// Fields of a packet that a match is compared with.
pub struct Facts<'a> {
    pub source: IpAddr,
    /// None for ARP.
    pub destination: Option<IpAddr>,
    /// None if no limit reads it.
    pub transport: Option<&'a Transport>,
    pub lists: &'a Lists,
}

impl Facts<'_> {
    /// True if the limit applies: all fields of the match hold, and not all fields of `not`.
    pub fn hold(&self, matches: &Match) -> bool {
        let excepted = |not: &Match| self.all_hold(not, false);
        self.all_hold(matches, true) && !matches.not.as_deref().is_some_and(excepted)
    }

    /// True if the limit applies, whatever the fields that cannot be read.
    pub fn certainly_hold(&self, matches: &Match) -> bool {
        let excepted = |not: &Match| self.all_hold(not, true);
        self.all_hold(matches, false) && !matches.not.as_deref().is_some_and(excepted)
    }

    /// True if all fields hold. A field that cannot be read counts as `unseen`.
    fn all_hold(&self, matches: &Match, unseen: bool) -> bool {
        let version = match matches.ip_version {
            None => true,
            Some(IpVersion::V4) => self.source.is_ipv4(),
            Some(IpVersion::V6) => self.source.is_ipv6(),
        };
        let tiers = listed::look_up(self.lists, self.source).tiers;
        let is_on = |place: &Destination| match place {
            Destination::Prefix(prefix) => prefix.contains(&self.source),
            Destination::List(name) => tiers.contains(name),
        };
        let lists = matches.source.is_empty() || matches.source.iter().any(is_on);
        let left_out = matches.unless.iter().any(is_on);
        let transport = self.transport.unwrap_or(&Transport::UNSEEN);
        version
            && lists
            && !left_out
            && self.destination_holds(&matches.destination)
            && transport_holds(matches, transport, unseen)
    }

    fn destination_holds(&self, wanted: &[Destination]) -> bool {
        let is_one = |destination: IpAddr| {
            let tiers = listed::look_up(self.lists, destination).tiers;
            wanted
                .iter()
                .any(|destination_wanted| match destination_wanted {
                    Destination::Prefix(prefix) => prefix.contains(&destination),
                    Destination::List(name) => tiers.contains(name),
                })
        };
        wanted.is_empty() || self.destination.is_some_and(is_one)
    }
}

fn transport_holds(matches: &Match, seen: &Transport, unseen: bool) -> bool {
    let wanted = matches.protocol;
    let right_protocol =
        wanted.is_none_or(|wanted| seen.protocol.is(unseen, |found| *found == wanted.0));
    let right_flags = matches.tcp_flags.is_none_or(|wanted| {
        // Each named flag must have its value.
        seen.flags.is(unseen, |found| {
            (0..8).all(|bit| {
                let bit_of = |flags: u8| flags >> bit & 1 == 1;
                !bit_of(wanted.looked_at) || bit_of(*found) == bit_of(wanted.set)
            })
        })
    });
    let right_place = matches.fragments.is_none_or(|wanted| {
        let place = &seen.place;
        place.is(unseen, |place| wanted == (*place != Place::Whole))
    });
    let in_one = |ranges: &[(u32, u32)], value: u32| {
        ranges.is_empty()
            || ranges
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&value))
    };
    let lengths: Vec<_> = matches
        .length
        .iter()
        .map(|range| (range.first.min(65_535), range.last.min(65_535)))
        .collect();
    let ttls: Vec<_> = matches
        .ttl
        .iter()
        .map(|range| (range.first, range.last))
        .collect();
    let codes: Vec<_> = matches
        .dscp
        .iter()
        .map(|range| (range.0.first, range.0.last))
        .collect();
    // The model has no sockets, and a packet whose ports cannot be read may belong to a connection.
    let right_connection = matches.established.is_none_or(|wanted| match seen.ports {
        Field::Unseen => unseen,
        _ => !wanted,
    });
    let sizes: Vec<_> = (matches.payload_length.iter())
        .map(|range| (range.first.min(65_535), range.last.min(65_535)))
        .collect();
    let vlans: Vec<_> = (matches.vlan.iter())
        .map(|range| (range.first, range.last))
        .collect();
    let right_vlan = match seen.vlan {
        Some(vlan) => in_one(&vlans, vlan.into()),
        None => vlans.is_empty(),
    };
    right_connection
        && right_vlan
        && (sizes.is_empty()
            || seen
                .payload_length
                .is(unseen, |length| in_one(&sizes, *length)))
        && right_protocol
        && right_flags
        && right_place
        && (lengths.is_empty() || seen.length.is(unseen, |length| in_one(&lengths, *length)))
        && in_one(&ttls, seen.ttl.into())
        && in_one(&codes, seen.dscp.into())
        && icmp_holds(&matches.icmp_type, &seen.icmp, unseen)
        && matches
            .payload
            .as_ref()
            .is_none_or(|wanted| payload_holds(wanted, &seen.payload, unseen))
        && port_holds(&matches.source_port, &seen.ports, unseen, |(from, _)| from)
        && port_holds(
            &matches.destination_port,
            &seen.ports,
            unseen,
            |(_, destination)| destination,
        )
}

fn icmp_holds(wanted: &[IcmpType], found: &Field<(bool, u8)>, unseen: bool) -> bool {
    wanted.is_empty()
        || found.is(unseen, |(version_6, kind)| {
            wanted.iter().any(|wanted| {
                let number = if *version_6 {
                    wanted.icmpv6
                } else {
                    wanted.icmp
                };
                number == Some(*kind)
            })
        })
}

fn payload_holds(wanted: &Payload, found: &packet::Payload, unseen: bool) -> bool {
    let bytes = &wanted.bytes.0;
    let begin = usize::from(wanted.offset);
    if found.length < begin + bytes.len() {
        return unseen && found.hidden;
    }
    (0..bytes.len()).all(|index| {
        let mask = wanted.mask.as_ref().map_or(0xff, |mask| mask.0[index]);
        found.bytes[begin + index] & mask == bytes[index] & mask
    })
}

fn port_holds(
    ranges: &[PortRange],
    ports: &Field<(u16, u16)>,
    unseen: bool,
    end: impl Fn((u16, u16)) -> u16,
) -> bool {
    ranges.is_empty()
        || ports.is(unseen, |ports| {
            let port = u32::from(end(*ports));
            ranges
                .iter()
                .any(|range| range.first <= port && port <= range.last)
        })
}
