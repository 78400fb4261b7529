//! Settings without effect: limits that match no packet, lists that no limit names.

use ipnet::IpNet;

use super::{
    Destination, Limit, Match, Protocol, Settings,
    matches::{IcmpType, IpVersion},
};

/// The longest frame of an interface with the usual MTU, in bytes.
pub const USUAL_FRAME: u64 = 1_522;

impl Settings {
    /// All settings that can never have an effect on frames of at most `frame_max` bytes, and the advice for each.
    pub fn ineffective(&self, frame_max: u64) -> Vec<String> {
        let mut warnings = Vec::new();
        for limit in &self.limits {
            let not = limit.matches.not.as_deref();
            let not = not.and_then(never_matches);
            let found = [
                never_matches(&limit.matches).map(|why| format!("it matches no packet: {why}")),
                not.map(|why| format!("not excepts no packet: {why}")),
                too_small(limit, frame_max),
            ];
            let found = found.into_iter().flatten();
            warnings.extend(found.map(|why| format!("limit '{}': {why}", limit.name)));
        }
        let is_named = |list: &&String| {
            let mut matches = self.limits.iter().flat_map(|limit| limit.matches.all());
            matches.any(|limit| limit.names(list))
        };
        let unused = self.lists.tiers.keys().filter(|list| !is_named(list));
        warnings.extend(unused.map(|list| {
            format!(
                "no limit uses the list '{list}': write match = {{ source = \"{list}\" }} in a limit, or remove the list"
            )
        }));
        warnings
    }
}

/// Finds a protocol that belongs to the other version of IP.
fn wrong_version(matches: &Match) -> Option<String> {
    let (protocol, version) = (matches.protocol?, matches.ip_version?);
    let (other, instead) = match (protocol.0, version) {
        (1 | 2, IpVersion::V6) => (4, "protocol = \"icmpv6\""),
        (58, IpVersion::V4) => (6, "protocol = \"icmp\""),
        _ => return None,
    };
    Some(format!(
        "{protocol} is a protocol of IPv{other}: write {instead}, or ip_version = {other}"
    ))
}

/// Finds the reason why no valid packet has all these fields. Fragments that hide a field may still be charged.
fn never_matches(matches: &Match) -> Option<String> {
    wrong_version(matches)
        .or_else(|| wrong_icmp_type(matches))
        .or_else(|| wrong_destination(matches))
        .or_else(|| two_protocols(matches))
}

/// Finds ICMP types that the wanted protocol, or the protocol of the wanted IP version, does not have.
fn wrong_icmp_type(matches: &Match) -> Option<String> {
    let (protocol, other) = match (matches.protocol, matches.ip_version) {
        (Some(Protocol::ICMP), _) | (None, Some(IpVersion::V4)) => ("icmp", "icmpv6"),
        (Some(Protocol::ICMPV6), _) | (None, Some(IpVersion::V6)) => ("icmpv6", "icmp"),
        _ => return None,
    };
    let is_its = |one: &IcmpType| match protocol {
        "icmp" => one.icmp.is_some(),
        _ => one.icmpv6.is_some(),
    };
    let is_wrong = !matches.icmp_type.is_empty() && !matches.icmp_type.iter().any(is_its);
    is_wrong.then(|| {
        let types: Vec<_> = matches.icmp_type.iter().map(ToString::to_string).collect();
        let types = types.join(", ");
        format!("{protocol} has no type {types}: write a type of {protocol}, or the protocol and IP version of {other}")
    })
}

/// Finds destinations that are all of the other version of IP.
fn wrong_destination(matches: &Match) -> Option<String> {
    let version = matches.ip_version?;
    let is_other = |one: &Destination| match one {
        Destination::Prefix(prefix) => matches!(prefix, IpNet::V4(_)) != (version == IpVersion::V4),
        Destination::List(_) => false,
    };
    let destinations = &matches.destination;
    let is_wrong = !destinations.is_empty() && destinations.iter().all(is_other);
    is_wrong.then(|| {
        format!("no destination is an address of IPv{version}: write one, or leave ip_version out")
    })
}

/// Finds fields of ICMP beside fields of other protocols.
fn two_protocols(matches: &Match) -> Option<String> {
    let others = [
        (!matches.destination_port.is_empty(), "destination_port"),
        (!matches.source_port.is_empty(), "source_port"),
        (matches.tcp_flags.is_some(), "tcp_flags"),
        (matches.payload.is_some(), "payload"),
    ];
    let (_, other) = others.iter().find(|(is_used, _)| *is_used)?;
    (!matches.icmp_type.is_empty()).then(|| {
        format!(
            "messages of ICMP have no {other}: leave {other} or icmp_type out, or write two limits"
        )
    })
}

/// Finds a burst that never admits a whole frame.
fn too_small(limit: &Limit, frame_max: u64) -> Option<String> {
    let why = limit.quota(frame_max).err()?;
    limit.quota(1).is_ok().then(|| why.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    #[test]
    fn settings_without_effect_get_a_warning() {
        let warnings = |text: &str| {
            let file = parse(text, Path::new("."));
            let file = file.unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"));
            file.settings.ineffective(USUAL_FRAME)
        };
        // Another limit names the list.
        let above = "[lists]\nold = [\"192.0.2.0/24\"]\nown = [\"192.0.2.0/24\"]\n[[limit]]\nname = \"other\"\nrate = \"5/s\"\n\
                     match = { unless = \"own\" }\n[[limit]]\nname = \"a\"\nrate = \"8mbit\"\n";
        let cases = r#"
match = { source = "old", protocol = "icmpv6", ip_version = 4 } => limit 'a': it matches no packet: icmpv6 is a protocol of IPv6
match = { unless = "old", protocol = "icmp", ip_version = 6 } => limit 'a': it matches no packet: icmp is a protocol of IPv4
match = { unless = "old", protocol = "icmp", icmp_type = "packet-too-big" } => limit 'a': it matches no packet: icmp has no type packet-too-big: write a type of icmp
match = { unless = "old", protocol = "icmpv6", icmp_type = ["source-quench", "timestamp-reply"] } => limit 'a': it matches no packet: icmpv6 has no type source-quench, timestamp-reply
match = { unless = "old", ip_version = 4, icmp_type = "neighbor-solicitation" } => limit 'a': it matches no packet: icmp has no type
match = { unless = "old", ip_version = 6, icmp_type = "source-quench" } => limit 'a': it matches no packet: icmpv6 has no type
match = { unless = "old", ip_version = 6, destination = ["192.0.2.1", "10.0.0.0/8"] } => limit 'a': it matches no packet: no destination is an address of IPv6
match = { unless = "old", icmp_type = 8, tcp_flags = "syn" } => limit 'a': it matches no packet: messages of ICMP have no tcp_flags
match = { unless = "old", icmp_type = 8, destination_port = 53 } => limit 'a': it matches no packet: messages of ICMP have no destination_port
match = { unless = "old", not = { ip_version = 4, destination = "2001:db8::1" } } => limit 'a': not excepts no packet: no destination
match = { source = "own" } => no limit uses the list 'old'
burst = "100b"\nmatch = { source = "old" } => limit 'a': a burst of 100b could never admit a frame of 1522
"#;
        for case in cases.lines().skip(1) {
            let (below, expected) = case.split_once(" => ").unwrap();
            let found = warnings(&format!("{above}{}\n", below.replace("\\n", "\n")));
            assert_eq!(found.len(), 1, "{below}: {found:#?}");
            assert!(found[0].starts_with(expected), "{below}: {found:#?}");
        }
    }

    #[test]
    fn matches_that_some_packet_has_get_no_warning() {
        for fields in [
            "protocol = \"icmp\", icmp_type = [\"packet-too-big\", \"echo-request\"]",
            "ip_version = 6, icmp_type = \"packet-too-big\"",
            "icmp_type = [\"source-quench\", \"packet-too-big\"]",
            "ip_version = 6, destination = [\"192.0.2.1\", \"2001:db8::1\"]",
            "ip_version = 6, destination = [\"192.0.2.1\", \"own\"]",
            "fragments = true, protocol = \"udp\", payload = { bytes = \"00\" }",
        ] {
            let text = format!(
                "[[limit]]\nname = \"a\"\nrate = 5\nmatch = {{ unless = \"own\", {fields} }}\n[lists]\nown = []\n"
            );
            let file = parse(&text, Path::new(".")).unwrap();
            assert_eq!(file.settings.ineffective(USUAL_FRAME), [""; 0], "{fields}");
        }
    }
}
