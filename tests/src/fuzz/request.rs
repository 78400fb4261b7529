//! Fuzz target for the parts of a request that the exporter reads itself: host name and accepted format.

use std::net::IpAddr;

use limiter_user::export::{Format, is_local};

/// The first line is a `Host` header, the others are `Accept` headers.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let host = lines.next().unwrap_or_default();
    // The exporter answers requests for an address, or for a name that no other machine can have.
    if is_local(host) {
        // A user may precede the host, as in a URL.
        let name = host.rsplit('@').next().unwrap_or_default();
        let name = match name.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => name,
            _ => name,
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        assert!(
            address.parse::<IpAddr>().is_ok() || address.eq_ignore_ascii_case("localhost"),
            "{host:?}"
        );
    }
    let accepted: Vec<_> = lines.collect();
    if Format::accepted(accepted.iter().copied()) == Format::OpenMetrics {
        let asked = accepted.join(",").to_ascii_lowercase();
        assert!(asked.contains("application/openmetrics-text"), "{asked:?}");
    }
}
