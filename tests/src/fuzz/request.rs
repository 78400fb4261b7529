//! Fuzz target for the parts of a request that the exporter reads itself: the host name, and the format.

use std::net::IpAddr;

use limiter_user::export::{Format, is_local};

/// The text is a `Host` and an `Accept` header.
pub(super) fn run(bytes: &[u8]) {
    let host = String::from_utf8_lossy(bytes);
    // The exporter answers requests for an address, or for a name that no other machine can have.
    if is_local(&host) {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => name,
            _ => &host,
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        assert!(
            address.parse::<IpAddr>().is_ok() || address.eq_ignore_ascii_case("localhost"),
            "{host:?}"
        );
    }
    // No wildcard means OpenMetrics.
    if Format::accepted(&host) == Format::OpenMetrics {
        assert!(
            host.to_ascii_lowercase().contains("openmetrics-text"),
            "{host:?}"
        );
    }
}
