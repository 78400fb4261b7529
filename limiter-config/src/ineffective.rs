//! Settings without effect: limits that match no packet, or only exempt ones, lists that no limit names.

mod exempt;

use super::{Limit, Match, Settings, matches::IpVersion};

/// The longest frame of an interface with the usual MTU, in bytes.
pub const USUAL_FRAME: u64 = 1_522;

impl Settings {
    /// All settings that can never have an effect on frames of at most `frame_max` bytes, and the advice for each.
    pub fn ineffective(&self, frame_max: u64) -> Vec<String> {
        let mut warnings = Vec::new();
        for limit in &self.limits {
            let not = limit.matches.not.as_deref();
            let not = not.and_then(wrong_version);
            let found = [
                wrong_version(&limit.matches).map(|why| format!("it matches no packet: {why}")),
                exempt::first(&limit.matches, self.exempt),
                self.nothing_else(limit),
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

    /// Finds a limit on everything, beside which no packet is left for a limit on what no other one matches.
    fn nothing_else(&self, limit: &Limit) -> Option<String> {
        let is_everything = |other: &&Limit| other.matches.is_everything();
        let everything = self.limits.iter().find(is_everything)?;
        limit.matches.other.then(|| {
            format!(
                "it matches no packet: limit '{}' matches all of them; leave one of both out",
                everything.name
            )
        })
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

/// Finds a burst that never admits a whole frame.
fn too_small(limit: &Limit, frame_max: u64) -> Option<String> {
    let why = limit.quota(frame_max).err()?;
    limit.quota(1).is_ok().then(|| why.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::file::parse;

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
match = { unless = "old", not = { ip_version = 4, protocol = "icmpv6" } } => limit 'a': not excepts no packet: icmpv6 is a protocol of IPv6
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
    fn limit_on_what_is_left_beside_a_limit_on_everything_gets_a_warning() {
        let warnings = |matches: &str| {
            let text = format!(
                "[[limit]]\nname = \"all\"\nrate = 5\n{matches}[[limit]]\nname = \"rest\"\nrate = 5\nmatch = \"other\"\n"
            );
            let file = parse(&text, Path::new(".")).expect("a valid file");
            let shown = crate::file::show(&[], &file.settings);
            assert!(shown.contains("match = \"other\"\n"), "{shown}");
            assert_eq!(parse(&shown, Path::new(".")).expect("valid"), file);
            file.settings.ineffective(USUAL_FRAME)
        };
        let found = warnings("");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("limit 'rest': it matches no packet: limit 'all' matches all")
        );
        assert!(warnings("match = { destination_port = 9 }\n").is_empty());
    }

    #[test]
    fn limit_on_exempt_control_traffic_gets_a_warning() {
        let warnings = |exempt: &str, fields: &str| {
            let text = format!(
                "exempt = [{exempt}]\n[[limit]]\nname = \"a\"\nrate = 5\nmatch = {{ {fields} }}\n"
            );
            let file = parse(&text, Path::new("."));
            let file = file.unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"));
            file.settings.ineffective(USUAL_FRAME)
        };
        let cases = r#"
protocol = "icmpv6", icmp_type = "router-advertisement" => control neighbour discovery
icmp_type = ["neighbor-solicitation", "neighbor-advertisement"] => control neighbour discovery
icmp_type = "router-solicitation", ip_version = 6 => control neighbour discovery
icmp_type = "listener-query", ttl = 1 => control multicast listener discovery
protocol = "icmpv6", icmp_type = [143, 135] => control neighbour and multicast listener discovery
protocol = "udp", destination_port = [67, 68] => control DHCP
protocol = "udp", destination_port = "546-547", ip_version = 6 => control DHCP
protocol = "igmp" => control IGMP
protocol = "igmp", destination = ["192.0.2.1", "224.0.0.0/24"] => control IGMP
protocol = "112" => vrrp VRRP
protocol = "89", ttl = 1 => ospf OSPF
protocol = "udp", destination_port = 3784 => bfd BFD
icmp_type = "router-advertisement" =>
icmp_type = "echo-request" =>
protocol = "icmpv6" =>
protocol = "icmpv6", icmp_type = ["router-advertisement", "echo-request"] =>
protocol = "icmpv6", icmp_type = "router-advertisement", ttl = "0-254" =>
protocol = "icmp", icmp_type = "router-advertisement" =>
protocol = "udp", destination_port = "67-69" =>
protocol = "udp", destination_port = [67, 68], fragments = true =>
protocol = "udp", destination_port = 67, ip_version = 6 =>
protocol = "udp", source_port = 67 =>
destination_port = 67 =>
protocol = "igmp", ttl = "2-" =>
protocol = "igmp", destination = "192.0.2.1" =>
protocol = "112", ttl = "0-254" =>
protocol = "udp", destination_port = 4784 =>
"#;
        let all = r#""established", "control", "vrrp", "ospf", "bfd""#;
        for case in cases.lines().skip(1) {
            let (fields, expected) = case.split_once(" =>").unwrap();
            let found = warnings(all, fields);
            let Some((name, traffic)) = expected.trim().split_once(' ') else {
                assert_eq!(found, [""; 0], "{fields}");
                continue;
            };
            let begin =
                format!("limit 'a': it never applies to {traffic}, because exempt = [\"{name}\"]");
            assert!(
                found.len() == 1 && found[0].starts_with(&begin),
                "{fields}: {found:?}"
            );
            let others = all.replace(&format!(", \"{name}\""), "");
            assert_eq!(warnings(&others, fields), [""; 0], "{fields}");
        }
    }

    #[test]
    fn matches_that_some_packet_has_get_no_warning() {
        for fields in [
            "ip_version = 4, protocol = \"icmp\"",
            "ip_version = 6, protocol = \"icmpv6\"",
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
