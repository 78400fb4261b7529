//! Says what limits do to the host's own connections and to control traffic, before a transfer becomes slow.

use limiter_config::{Limit, Protocol, Settings};

use super::finding::{Finding, ok};

const CONTROL: &str = "control traffic (neighbour discovery, DHCP)";

/// The finding of `doctor`. `settings`: those in force, if there are any.
pub fn own_traffic(settings: Option<&Settings>) -> Finding {
    let found = match settings {
        None => format!(
            "a limit on everything also counts packets of the host's own connections, such as downloads, and {CONTROL}; attach with `--exempt established,control` leaves both out, and a limit with `established = true` bounds the first"
        ),
        Some(settings) => note(settings).unwrap_or_else(|| {
            "limits leave the host's own downloads and control traffic alone, or have limits for them".to_owned()
        }),
    };
    ok(found).of("connections")
}

/// A note about limits that slow the host's own transfers, or about an exemption without a bound; none if there is nothing
/// to say.
pub fn note(settings: &Settings) -> Option<String> {
    let exempt = settings.exempt;
    let has_bound = |limit: &Limit| limit.matches.established == Some(true);
    if exempt.established {
        let is_bound = settings.limits.iter().any(has_bound);
        return (!is_bound).then(|| {
            "packets of the host's own connections meet no limit, also from a peer that floods one: a limit with match = { established = true } bounds them".to_owned()
        });
    }
    let names: Vec<_> = (settings.limits.iter())
        .filter(|limit| counts_transfers(limit))
        .map(|limit| format!("'{}'", limit.name))
        .collect();
    let control = if exempt.control {
        String::new()
    } else {
        format!(", and {CONTROL}")
    };
    let (limits, counts) = match names.len() {
        0 => return None,
        1 => ("limit", "counts"),
        _ => ("limits", "count"),
    };
    Some(format!(
        "{limits} {} also {counts} packets of the host's own connections, such as downloads{control}: `--exempt established,control`, or exempt in a file, leaves them out",
        names.join(", ")
    ))
}

/// Returns true if the limit charges segments of a download: to a port that no match can name in advance.
fn counts_transfers(limit: &Limit) -> bool {
    let matches = &limit.matches;
    let is_tcp = |protocol: Protocol| protocol.to_string() == "tcp";
    matches.destination_port.is_empty()
        && matches.source_port.is_empty()
        && matches.tcp_flags.is_none()
        && matches.icmp_type.is_empty()
        && matches.protocol.is_none_or(is_tcp)
        && matches.established != Some(false)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use limiter_config::file::parse;

    use super::*;

    fn noted(text: &str) -> String {
        let limits = format!("interfaces = [\"eth0\"]\n{text}");
        note(&parse(&limits, Path::new("/")).unwrap().settings).unwrap_or_default()
    }

    #[test]
    fn limits_that_slow_own_transfers_are_named() {
        let all = "[[limit]]\nname = \"all\"\nrate = \"1k/s\"\n";
        let dns = "[[limit]]\nname = \"dns\"\nmatch = { protocol = \"udp\", destination_port = 53 }\nrate = \"9/s\"\n";
        let syn = "[[limit]]\nname = \"syn\"\nmatch = { protocol = \"tcp\", tcp_flags = \"syn\" }\nrate = \"9/s\"\n";
        let own = "[[limit]]\nname = \"own\"\nmatch = { established = true }\nrate = \"9k/s\"\n";
        let exempt = "exempt = [\"established\", \"control\"]\n";
        assert!(noted(all).starts_with("limit 'all' also counts"));
        assert!(noted(all).contains("neighbour discovery"));
        let control = format!("exempt = [\"control\"]\n{all}");
        assert!(!noted(&control).contains("neighbour discovery"));
        assert_eq!(noted(&format!("{dns}{syn}")), "");
        let unbounded = format!("{exempt}{all}{dns}");
        assert!(noted(&unbounded).contains("established = true"));
        assert_eq!(noted(&format!("{unbounded}{own}")), "");
    }
}
