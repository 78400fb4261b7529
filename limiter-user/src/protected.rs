//! Addresses of this host that bans of feeds and of a fleet leave out: without them it would be cut off.

use std::{fs, net::IpAddr};

use limiter_feed::Protected;
use limiter_kernel::{
    Result,
    sys::address::{gateways, own},
};

use crate::ask;

/// Files with the addresses of resolvers. systemd-resolved writes those that it asks into the second one.
const RESOLVERS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// Finds the default gateways, the resolvers and the addresses of the host.
pub async fn here() -> Result<Protected> {
    let mut all = Protected::default();
    all.add(gateways().await?, "the default gateway");
    let texts = RESOLVERS.map(|file| fs::read_to_string(file).unwrap_or_default());
    let resolvers = texts.iter().flat_map(|text| resolvers(text));
    all.add(resolvers, "the resolver");
    all.add(own().await?, "an address of this host");
    Ok(all)
}

/// Finds what [`here`] does, and the addresses of the fleet's `store`. If no agent answers, they are those of the last
/// time.
pub async fn with_store(store: &mut Vec<IpAddr>) -> Result<Protected> {
    if let Ok(now) = ask::store().await {
        *store = now;
    }
    let mut all = here().await?;
    all.add(store.iter().copied(), "the store of the fleet");
    Ok(all)
}

/// The addresses in the text of a resolv.conf(5).
fn resolvers(text: &str) -> impl Iterator<Item = IpAddr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver");
        let address = address.and_then(|_| words.next())?;
        address.split('%').next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_read() {
        let text = "# x\nsearch a.example\nnameserver 192.0.2.53\n nameserver  fe80::1%eth0 # y\nnameservers 1.1.1.1\nnameserver x\n";
        let found: Vec<_> = resolvers(text).map(|address| address.to_string()).collect();
        assert_eq!(found, ["192.0.2.53", "fe80::1"]);
    }
}
