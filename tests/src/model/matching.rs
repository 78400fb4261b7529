//! Which limits hold a packet.

use std::net::IpAddr;

use limiter_user::config::{
    Limit, Match,
    matches::{IpVersion, Ports},
};

use super::{
    lists::Listed,
    packet::{Place, Transport},
};

/// Whether anything of the limit stands behind the IP header.
pub fn looks_behind(limit: &Limit) -> bool {
    let Match {
        protocol,
        destination_port,
        source_port,
        tcp_flags,
        source: _,
        unless: _,
        ip_version: _,
        fragments,
    } = &limit.matches;
    limit.key.by_port
        || protocol.is_some()
        || !destination_port.0.is_empty()
        || !source_port.0.is_empty()
        || tcp_flags.is_some()
        || fragments.is_some()
}

/// Whether all that is written holds. `transport` is there where any limit looks at it.
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

fn transport_holds(matches: &Match, transport: Option<&Transport>) -> bool {
    let protocol = transport.and_then(|seen| seen.protocol);
    let ports = transport.and_then(|seen| seen.ports);
    let flags = transport.and_then(|seen| seen.flags);
    let fragment = transport.is_some_and(|seen| seen.place != Place::Whole);
    let right_protocol = matches
        .protocol
        .is_none_or(|wanted| protocol == Some(wanted.0));
    let right_flags = matches.tcp_flags.is_none_or(|wanted| {
        // Each flag by itself: looked at, it is as it should be.
        flags.is_some_and(|found| {
            (0..8).all(|bit| {
                let of = |flags: u8| flags >> bit & 1 == 1;
                !of(wanted.looked_at) || of(found) == of(wanted.set)
            })
        })
    });
    right_protocol
        && right_flags
        && matches.fragments.is_none_or(|wanted| wanted == fragment)
        && port_holds(&matches.source_port, ports.map(|(from, _)| from))
        && port_holds(&matches.destination_port, ports.map(|(_, to)| to))
}

fn port_holds(wanted: &Ports, port: Option<u16>) -> bool {
    let Ports(ranges) = wanted;
    ranges.is_empty()
        || port.is_some_and(|port| {
            ranges
                .iter()
                .any(|range| range.first <= port && port <= range.last)
        })
}
