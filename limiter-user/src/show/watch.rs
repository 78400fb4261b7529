//! The output of `watch`: one line per packet.

use std::net::{IpAddr, SocketAddr};

use limiter_common::policy::verdict::Reason;

use crate::observe::event::Event;

/// Formats one event.
pub fn line(event: &Event) -> String {
    let source = event.source.map_or_else(
        || "unknown source".to_owned(),
        |source| endpoint(source, event.source_port),
    );
    let destination = match (event.destination, event.destination_port) {
        (Some(address), port) => format!(" to {}", endpoint(address, port)),
        (None, Some(port)) => format!(" to port {port}"),
        (None, None) => String::new(),
    };
    let flags = match &event.tcp_flags {
        Some(flags) if flags.is_empty() => " without flags".to_owned(),
        Some(flags) => format!(" {}", flags.join(",")),
        None => String::new(),
    };
    let protocol = event.protocol.as_ref();
    let protocol = protocol.map(|protocol| format!(", {protocol}{flags}"));
    let protocol = protocol.unwrap_or_default();
    let (time, length, verdict) = (&event.time, event.length, verdict(event));
    format!("{time} {source}{destination}{protocol}, {length} bytes, {verdict}\n")
}

/// Formats verdict and reason.
pub fn verdict(event: &Event) -> String {
    let verdict = match event.verdict {
        "drop" => "dropped",
        "pass" => "passed",
        _ => "passed in shadow",
    };
    let why = match (event.reason, &event.limit) {
        ("limit", Some(limit)) => format!("over the limit {limit}"),
        ("limit", None) => "over the limit".to_owned(),
        ("deny", _) => "denied".to_owned(),
        ("ban", _) => "banned".to_owned(),
        ("new_source", Some(limit)) => format!("new source, no room under the limit {limit}"),
        ("new_source", None) => "new source".to_owned(),
        ("admitted" | "paced", Some(limit)) => format!("admitted by {limit}"),
        (reason, _) => Reason::from_name(reason)
            .map_or(reason, Reason::text)
            .to_owned(),
    };
    format!("{verdict}: {why}")
}

fn endpoint(address: IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp() -> Event {
        Event {
            time: "T".to_owned(),
            interface: "eth0".to_owned(),
            source: "2001:db8::7".parse().ok(),
            source_port: Some(53),
            destination: "2001:db8::1".parse().ok(),
            destination_port: Some(4_000),
            protocol: Some("udp".to_owned()),
            tcp_flags: None,
            length: 64,
            packets: 1,
            limit: Some("dns".to_owned()),
            verdict: "drop",
            reason: "limit",
        }
    }

    #[test]
    fn line_names_both_ends_protocol_and_reason() {
        assert_eq!(
            line(&udp()),
            "T [2001:db8::7]:53 to [2001:db8::1]:4000, udp, 64 bytes, dropped: over the limit dns\n"
        );
        let flags = |flags: &[&'static str]| Event {
            source: "192.0.2.7".parse().ok(),
            destination: "192.0.2.1".parse().ok(),
            protocol: Some("tcp".to_owned()),
            tcp_flags: Some(flags.to_vec()),
            ..udp()
        };
        let start = "T 192.0.2.7:53 to 192.0.2.1:4000, tcp";
        assert!(line(&flags(&["syn", "ack"])).starts_with(&format!("{start} syn,ack, 64")));
        assert!(line(&flags(&[])).starts_with(&format!("{start} without flags, 64")));
    }

    #[test]
    fn line_says_why_a_packet_passed() {
        let passed = |reason, limit: Option<&str>| Event {
            verdict: "pass",
            reason,
            limit: limit.map(str::to_owned),
            ..udp()
        };
        let cases = [
            (passed("admitted", Some("dns")), "passed: admitted by dns"),
            (passed("unlimited", None), "passed: matched no limit"),
            (passed("established", None), "passed: established"),
        ];
        for (event, wanted) in cases {
            assert_eq!(verdict(&event), wanted);
        }
    }

    #[test]
    fn line_omits_unknown_fields() {
        let fragment = Event {
            source_port: None,
            destination_port: None,
            ..udp()
        };
        assert!(line(&fragment).starts_with("T 2001:db8::7 to 2001:db8::1, udp, 64 bytes"));
        let of_earlier_program = Event {
            source_port: None,
            destination: None,
            ..udp()
        };
        assert!(line(&of_earlier_program).starts_with("T 2001:db8::7 to port 4000, udp, 64"));
        let malformed = Event {
            source: None,
            protocol: None,
            limit: None,
            verdict: "would_drop",
            reason: "malformed",
            destination_port: None,
            ..of_earlier_program
        };
        assert_eq!(
            line(&malformed),
            "T unknown source, 64 bytes, passed in shadow: malformed\n"
        );
    }
}
