//! The warning about a ban by hand of an address that this host needs.

use std::net::IpAddr;

use ipnet::IpNet;
use limiter_config::{Prefixes, lists::show};

use crate::{cli::shared::note, protected};

/// Warns about a ban of these prefixes, if one covers the default gateway, the resolver, the fleet's store or an address
/// of this host, and `allow` does not. Prints nothing if these addresses cannot be read.
pub async fn warn(interface: &str, prefixes: &[IpNet], allow: &Prefixes, is_shared: bool) {
    let Ok(needed) = protected::with_store(&mut Vec::new()).await else {
        return;
    };
    let passes = |address: &IpAddr, ban: &IpNet| {
        let mut around = allow.iter().filter(|allowed| allowed.contains(address));
        around.any(|allowed| allowed.prefix_len() >= ban.prefix_len())
    };
    let cuts_off = |ban: &&IpNet| {
        let covered = needed.covered(ban);
        covered.is_some_and(|(address, _)| !passes(address, ban))
    };
    let Some(ban) = prefixes.iter().find(cuts_off) else {
        return;
    };
    let words = needed.words(ban).unwrap_or_default();
    let effect = match is_shared {
        true => "this host leaves the ban out".to_owned(),
        false => format!(
            "this ban drops the packets from there that come in through {interface}; `limiter unban {interface} {}` ends it",
            show(ban)
        ),
    };
    note(&format!("WARNING: {words}: {effect}"));
}
