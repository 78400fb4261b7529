//! `watch`: a drop on one line, for people.

use crate::stats::event::Event;

/// One event.
#[must_use]
pub fn line(event: &Event) -> String {
    let source = event
        .source
        .map_or_else(|| "unknown source".to_owned(), |source| source.to_string());
    let protocol = match (&event.protocol, event.destination_port) {
        (Some(protocol), Some(port)) => format!(", {protocol} to port {port}"),
        (Some(protocol), None) => format!(", {protocol}"),
        (None, _) => String::new(),
    };
    let verdict = match event.verdict {
        "drop" => "dropped",
        _ => "passed in shadow",
    };
    let why = match (event.reason, &event.limit) {
        ("limit", Some(limit)) => format!("over the limit {limit}"),
        ("limit", None) => "over the limit".to_owned(),
        ("deny", _) => "denied".to_owned(),
        ("newcomer", Some(limit)) => format!("new source, no room under the limit {limit}"),
        ("newcomer", None) => "new source".to_owned(),
        (reason, _) => reason.to_owned(),
    };
    format!(
        "{} {source}{protocol}, {} bytes, {verdict}: {why}\n",
        event.time, event.length
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_in_words() {
        let event = Event {
            time: "2026-11-21T06:00:00.000001Z".to_owned(),
            interface: "eth0".to_owned(),
            source: "2001:db8::7".parse().ok(),
            protocol: Some("udp".to_owned()),
            destination_port: Some(53),
            length: 64,
            limit: Some("dns".to_owned()),
            verdict: "drop",
            reason: "limit",
        };
        assert_eq!(
            line(&event),
            "2026-11-21T06:00:00.000001Z 2001:db8::7, udp to port 53, 64 bytes, dropped: over the limit dns\n"
        );
        let unknown = Event {
            source: None,
            protocol: None,
            destination_port: None,
            limit: None,
            verdict: "would_drop",
            reason: "malformed",
            ..event
        };
        assert_eq!(
            line(&unknown),
            "2026-11-21T06:00:00.000001Z unknown source, 64 bytes, passed in shadow: malformed\n"
        );
    }
}
