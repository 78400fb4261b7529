//! Keeps protected packets out of a rule: the user's own SSH, open connections, and control traffic.
//!
//! The allow list needs no care: it decides before any limit.

use std::net::IpAddr;

use limiter_common::policy::control::{BFD, LISTENERS, NEIGHBOURS};
use limiter_config::{
    Exempt, Match, Protocol, Text as _,
    matches::{Destination, IcmpType, PortRange},
};

use super::{
    condition::{Condition, Values},
    shape::Field,
};
use crate::plan::session::Session;

/// Ports of control traffic over UDP: DHCP, DHCPv6, BFD.
const CONTROL_PORTS: [(u64, u64); 4] = [
    (67, 68),
    (546, 547),
    (BFD[0] as u64, BFD[0] as u64),
    (BFD[1] as u64, BFD[1] as u64),
];
/// Protocols that are control traffic: IGMP, OSPF, VRRP.
const CONTROL_PROTOCOLS: [u64; 3] = [2, 89, 112];

/// The packets that rules leave out.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// The packets that the interface exempts already.
    pub exempt: Exempt,
    /// The user's own SSH session.
    pub session: Option<Session>,
}

/// The ranges of a condition on the field; none without one.
fn ranges(conditions: &[Condition], field: Field) -> Option<&[(u64, u64)]> {
    conditions
        .iter()
        .find_map(|condition| match &condition.values {
            Values::Ranges(ranges) if condition.field == field => Some(&ranges[..]),
            _ => None,
        })
}

fn protocol_of(conditions: &[Condition]) -> Option<u64> {
    let (protocol, _) = ranges(conditions, Field::Protocol)?.first()?;
    Some(*protocol)
}

/// True if a number of the ranges is a protected one, or there are none.
fn may_be(ranges: Option<&[(u64, u64)]>, protected: &[(u64, u64)]) -> bool {
    ranges.is_none_or(|ranges| {
        let touches = |(first, last): &(u64, u64)| {
            let mut protected = protected.iter();
            protected.any(|(from, until)| first <= until && from <= last)
        };
        ranges.iter().any(touches)
    })
}

/// True if all numbers of the ranges are protected ones.
fn are(ranges: Option<&[(u64, u64)]>, protected: &[(u64, u64)]) -> bool {
    let is = |(first, last): &(u64, u64)| {
        let mut protected = protected.iter();
        protected.any(|(from, until)| from <= first && last <= until)
    };
    ranges.is_some_and(|ranges| ranges.iter().all(is))
}

/// Types of ICMPv6 that are control traffic, as packets have them.
fn control_types() -> Vec<(u64, u64)> {
    let types = NEIGHBOURS.iter().chain(&LISTENERS);
    let number = |number: &u32| u64::from(number + limiter_common::abi::rules::OF_ICMPV6);
    types.map(|kind| (number(kind), number(kind))).collect()
}

impl Guard {
    /// Returns true for a rule that would match control traffic, which nothing can leave out of it.
    pub fn refuses(&self, conditions: &[Condition]) -> bool {
        let is_fragment = |condition: &Condition| condition.field == Field::Fragment;
        let Some(protocol) = protocol_of(conditions) else {
            return !conditions.iter().any(is_fragment);
        };
        if CONTROL_PROTOCOLS.contains(&protocol) {
            return true;
        }
        let is = |known: Protocol| protocol == u64::from(known.0);
        let ports = ranges(conditions, Field::DestinationPort);
        let types = ranges(conditions, Field::IcmpType);
        is(Protocol::UDP) && are(ports, &CONTROL_PORTS)
            || is(Protocol::ICMPV6) && are(types, &control_types())
    }

    /// The match of a rule, without protected packets. `destination`: the only one, if there is one.
    pub fn matches(&self, conditions: &[Condition], destination: Option<IpAddr>) -> Match {
        let mut matches = Match::default();
        conditions
            .iter()
            .for_each(|condition| condition.narrow(&mut matches));
        if let (Some(address), false) = (destination, matches.destination.is_empty()) {
            matches.destination = vec![Destination::Prefix(address.into())];
        }
        if !self.exempt.established {
            matches.established = Some(false);
        }
        matches.not = self.not(conditions).map(Box::new);
        matches
    }

    /// The packets that a rule must leave out.
    fn not(&self, conditions: &[Condition]) -> Option<Match> {
        let protocol = protocol_of(conditions)?;
        let is = |known: Protocol| protocol == u64::from(known.0);
        let ports = ranges(conditions, Field::DestinationPort);
        let range = |(first, last): &(u64, u64)| {
            let small = |number: &u64| u32::try_from(*number).unwrap_or(0);
            PortRange {
                first: small(first),
                last: small(last),
            }
        };
        if is(Protocol::TCP) {
            let session = self.session?;
            let port = u64::from(session.server.1);
            return may_be(ports, &[(port, port)]).then(|| Match {
                source: vec![Destination::Prefix(session.client.0.into())],
                destination_port: vec![range(&(port, port))],
                ..Match::default()
            });
        }
        if self.exempt.control {
            return None;
        }
        if is(Protocol::UDP) && may_be(ports, &CONTROL_PORTS) {
            return Some(Match {
                destination_port: CONTROL_PORTS.iter().map(range).collect(),
                ..Match::default()
            });
        }
        let types = control_types();
        let is_near = is(Protocol::ICMPV6) && may_be(ranges(conditions, Field::IcmpType), &types);
        is_near.then(|| {
            let numbers = NEIGHBOURS.iter().chain(&LISTENERS);
            let types = numbers.filter_map(|number| IcmpType::read(&number.to_string()).ok());
            Match {
                icmp_type: types.collect(),
                ..Match::default()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(fields: &[(Field, u64)]) -> Vec<Condition> {
        let fields = fields.iter();
        fields
            .map(|(field, value)| Condition::equal(*field, *value))
            .collect()
    }

    fn text(guard: &Guard, fields: &[(Field, u64)]) -> String {
        limiter_config::file::matches(&guard.matches(&rule(fields), None))
    }

    #[test]
    fn connections_control_traffic_and_own_ssh_are_left_out() {
        let mut guard = Guard::default();
        let udp = [(Field::Protocol, 17), (Field::Length, 40)];
        let tcp = [(Field::Protocol, 6), (Field::Flags, 2)];
        let of_udp = text(&guard, &udp);
        assert!(of_udp.contains("established = false"), "{of_udp}");
        assert!(of_udp.contains("\"67-68\", \"546-547\""), "{of_udp}");
        let dns = [(Field::Protocol, 17), (Field::DestinationPort, 53)];
        assert!(!text(&guard, &dns).contains("not"));
        assert!(!text(&guard, &tcp).contains("not"));
        guard.session = Session::parse("198.51.100.7 50000 192.0.2.1 2222");
        let of_tcp = text(&guard, &tcp);
        let own = "not = { destination_port = 2222, source = \"198.51.100.7\" }";
        assert!(of_tcp.contains(own), "{of_tcp}");
        let web = [(Field::Protocol, 6), (Field::DestinationPort, 443)];
        assert!(!text(&guard, &web).contains("not"));
        (guard.exempt.control, guard.exempt.established) = (true, true);
        assert_eq!(text(&guard, &udp), "{ protocol = \"udp\", length = 40 }");
    }

    #[test]
    fn rule_that_is_all_control_traffic_is_refused() {
        let guard = Guard::default();
        let refused = |fields: &[(Field, u64)]| guard.refuses(&rule(fields));
        assert!(refused(&[(Field::Ttl, 1)]), "of all protocols");
        assert!(refused(&[(Field::Protocol, 89), (Field::Ttl, 1)]));
        assert!(refused(&[
            (Field::Protocol, 17),
            (Field::DestinationPort, 67)
        ]));
        assert!(refused(&[
            (Field::Protocol, 58),
            (Field::IcmpType, 256 + 135)
        ]));
        assert!(!refused(&[
            (Field::Protocol, 58),
            (Field::IcmpType, 256 + 128)
        ]));
        assert!(!refused(&[
            (Field::Protocol, 17),
            (Field::DestinationPort, 53)
        ]));
    }
}
