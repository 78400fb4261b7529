//! What the exporter reads of a request by itself: who is asked, and which format is liked. The rest is hyper's.

use std::net::IpAddr;

use limiter_user::export::{is_local, wants_openmetrics};

/// The first line is a `Host` header, the others are `Accept` headers.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let host = lines.next().unwrap_or_default();
    // Whoever is answered has asked by an address, or by a name that cannot be given to another machine.
    if is_local(host) {
        // In front of the host there may be a user, as in a URL.
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
    if wants_openmetrics(accepted.iter().copied()) {
        let asked = accepted.join(",").to_ascii_lowercase();
        assert!(asked.contains("application/openmetrics-text"), "{asked:?}");
    }
}
