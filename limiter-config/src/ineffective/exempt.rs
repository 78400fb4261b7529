//! Limits on traffic that is exempt before any limit.

use limiter_common::policy::{
    client::{DHCP, DHCPV6},
    control::{BFD, LISTENERS, NEIGHBOURS},
    protocols::{IGMP, OSPF, VRRP},
};

use crate::{
    Destination, Exempt, Match, Protocol,
    matches::{IcmpType, IpVersion, PortRange},
};

/// Finds a match whose packets, as hosts use them, are all exempt as control traffic.
pub fn first(matches: &Match, exempt: Exempt) -> Option<String> {
    // Fragments show no ports and no types, so that they are not exempt.
    if matches.fragments == Some(true) {
        return None;
    }
    let (traffic, name) = match matches.protocol {
        Some(Protocol::UDP) => of_ports(matches, exempt)?,
        Some(protocol) if protocol != Protocol::ICMPV6 && protocol != Protocol::ICMP => {
            of_protocol(matches, protocol, exempt)?
        }
        _ if exempt.control => (of_types(matches)?, "control"),
        _ => return None,
    };
    let key = if name == "control" { "rate" } else { "routing" };
    Some(format!(
        "it never applies to {traffic}, because exempt = [\"{name}\"] comes before all limits: write {key} under [control] instead, or remove \"{name}\" from exempt"
    ))
}

/// The ports of DHCP or BFD, if there are no others.
fn of_ports(matches: &Match, exempt: Exempt) -> Option<(&'static str, &'static str)> {
    let all_in = |ports: &[u32]| {
        let is_in =
            |range: &PortRange| (range.first..=range.last).all(|port| ports.contains(&port));
        !matches.destination_port.is_empty() && matches.destination_port.iter().all(is_in)
    };
    let dhcp = match matches.ip_version {
        Some(IpVersion::V4) => DHCP.to_vec(),
        Some(IpVersion::V6) => DHCPV6.to_vec(),
        None => [DHCP, DHCPV6].concat(),
    };
    if exempt.control && all_in(&dhcp) {
        Some(("DHCP", "control"))
    } else if exempt.bfd && all_in(&BFD) && has_ttl(matches, 255) {
        Some(("BFD", "bfd"))
    } else {
        None
    }
}

/// IGMP, VRRP or OSPF.
fn of_protocol(
    matches: &Match,
    protocol: Protocol,
    exempt: Exempt,
) -> Option<(&'static str, &'static str)> {
    let ttl = |ttl| has_ttl(matches, ttl);
    match u32::from(protocol.0) {
        IGMP if exempt.control && ttl(1) && has_groups(matches) => Some(("IGMP", "control")),
        VRRP if exempt.vrrp && ttl(255) => Some(("VRRP", "vrrp")),
        OSPF if exempt.ospf && (ttl(1) || ttl(255)) => Some(("OSPF", "ospf")),
        _ => None,
    }
}

/// The messages of the link of ICMPv6, if there are no others.
fn of_types(matches: &Match) -> Option<&'static str> {
    let is_icmp = matches.protocol == Some(Protocol::ICMP);
    let is_v6 =
        matches.protocol == Some(Protocol::ICMPV6) || matches.ip_version == Some(IpVersion::V6);
    let all_in = |types: &[u32]| {
        let is_in = |kind: &IcmpType| {
            (is_v6 || kind.icmp.is_none())
                && kind.icmpv6.is_none_or(|kind| types.contains(&kind.into()))
        };
        matches.icmp_type.iter().all(is_in)
    };
    let (near, listeners) = (has_ttl(matches, 255), has_ttl(matches, 1));
    if is_icmp || matches.icmp_type.is_empty() {
        None
    } else if near && all_in(&NEIGHBOURS) {
        Some("neighbour discovery")
    } else if listeners && all_in(&LISTENERS) {
        Some("multicast listener discovery")
    } else if near && listeners && all_in(&[&NEIGHBOURS[..], &LISTENERS].concat()) {
        Some("neighbour and multicast listener discovery")
    } else {
        None
    }
}

/// True if packets with this TTL match.
fn has_ttl(matches: &Match, ttl: u32) -> bool {
    let has = |range: &crate::matches::Ttl| (range.first..=range.last).contains(&ttl);
    matches.ttl.is_empty() || matches.ttl.iter().any(has)
}

/// True if packets to groups match.
fn has_groups(matches: &Match) -> bool {
    let has = |destination: &Destination| match destination {
        Destination::Prefix(prefix) => prefix.prefix_len() < 4 || prefix.network().is_multicast(),
        Destination::List(_) => true,
    };
    matches.destination.is_empty() || matches.destination.iter().any(has)
}
