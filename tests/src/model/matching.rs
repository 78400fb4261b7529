//! Models the matches of limits.

use std::net::IpAddr;

use limiter_user::config::{
    Limit, Match,
    matches::{IpVersion, Ports},
};

use super::{
    lists::Listed,
    packet::{Field, Place, Transport},
};

/// True if the limit reads anything after the IP header.
pub fn reads_transport(limit: &Limit) -> bool {
    let Match {
        protocol,
        destination_port,
        source_port,
        tcp_flags,
        source: _,
        unless: _,
        ip_version: _,
        fragments,
        length,
    } = &limit.matches;
    limit.key.by_port
        || protocol.is_some()
        || !destination_port.0.is_empty()
        || !source_port.0.is_empty()
        || tcp_flags.is_some()
        || fragments.is_some()
        || length.is_some()
}

/// True if the whole match holds. `transport` is given if any limit reads it.
pub fn holds(
    matches: &Match,
    source: IpAddr,
    transport: Option<&Transport>,
    listed: &Listed,
) -> bool {
    let version = match matches.ip_version {
        None => true,
        Some(IpVersion::V4) => source.is_ipv4(),
        Some(IpVersion::V6) => source.is_ipv6(),
    };
    let on = |list: &String| listed.tiers.contains(list);
    let lists = matches.source.is_empty() || matches.source.iter().any(on);
    let left_out = matches.unless.iter().any(on);
    version && lists && !left_out && transport_holds(matches, transport)
}

/// A field that cannot be read may match.
fn transport_holds(matches: &Match, transport: Option<&Transport>) -> bool {
    let Transport {
        protocol,
        ports,
        flags,
        place,
        control: _,
        length,
    } = transport.unwrap_or(&Transport::UNSEEN);
    let right_protocol =
        (matches.protocol).is_none_or(|wanted| protocol.may(|protocol| *protocol == wanted.0));
    let right_flags = matches.tcp_flags.is_none_or(|wanted| {
        // Each named flag must have its value.
        flags.may(|found| {
            (0..8).all(|bit| {
                let of = |flags: u8| flags >> bit & 1 == 1;
                !of(wanted.looked_at) || of(*found) == of(wanted.set)
            })
        })
    });
    let right_place = matches
        .fragments
        .is_none_or(|wanted| place.may(|place| wanted == (*place != Place::Whole)));
    let right_length = matches
        .length
        .is_none_or(|wanted| (wanted.first..=wanted.last).contains(length));
    right_length
        && right_protocol
        && right_flags
        && right_place
        && port_holds(&matches.source_port, ports, |(from, _)| from)
        && port_holds(&matches.destination_port, ports, |(_, to)| to)
}

fn port_holds(wanted: &Ports, ports: &Field<(u16, u16)>, end: impl Fn((u16, u16)) -> u16) -> bool {
    let Ports(ranges) = wanted;
    ranges.is_empty()
        || ports.may(|ports| {
            let port = u32::from(end(*ports));
            ranges
                .iter()
                .any(|range| range.first <= port && port <= range.last)
        })
}
