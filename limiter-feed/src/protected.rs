//! Addresses that no feed and no fleet bans, because the host needs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use limiter_lists::Range;
use serde::{Deserialize, Serialize};

/// Addresses that the host needs, with their use, such as `the default gateway`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Protected(BTreeMap<IpAddr, String>);

impl Protected {
    /// Adds addresses of the same use. The first use of an address is kept.
    pub fn add(&mut self, addresses: impl IntoIterator<Item = IpAddr>, for_use: &str) {
        for address in addresses {
            let entry = self.0.entry(address.to_canonical());
            entry.or_insert_with(|| for_use.to_owned());
        }
    }

    /// The first address that a prefix covers, with its use.
    pub fn covered(&self, prefix: &IpNet) -> Option<(&IpAddr, &str)> {
        let mut covered = self.0.range(prefix.network()..=prefix.broadcast());
        covered.next().map(|(address, used)| (address, &**used))
    }

    /// The prefixes that cover an address.
    pub fn covering<'p>(&self, all: impl Iterator<Item = &'p IpNet>) -> BTreeSet<IpNet> {
        let covering = all.filter(|prefix| self.covered(prefix).is_some());
        covering.copied().collect()
    }

    /// The rest of a prefix without the addresses that it covers, as the fewest prefixes. A prefix that covers one of a
    /// private network has no rest: other hosts of that network, which may be this host's, must not be banned.
    pub fn rest(&self, prefix: &IpNet) -> Vec<IpNet> {
        let covered = self.0.range(prefix.network()..=prefix.broadcast());
        let covered: Vec<_> = covered.map(|(address, _)| *address).collect();
        if covered.iter().any(is_private) {
            return Vec::new();
        }
        let mut rest = vec![Range::of_prefix(prefix)];
        for address in covered.into_iter().map(Range::of_address) {
            let part = rest.iter().position(|range| range.is_around(&address));
            match part {
                Some(index) => {
                    let range = rest.swap_remove(index);
                    rest.extend(range.without(&address));
                }
                None => rest.retain(|range| *range != address),
            }
        }
        rest.iter().flat_map(Range::prefixes).collect()
    }

    /// A text about a prefix that covers an address.
    pub fn words(&self, prefix: &IpNet) -> Option<String> {
        let (address, used) = self.covered(prefix)?;
        let prefix = show(prefix);
        Some(match prefix == address.to_string() {
            true => format!("{prefix} is {used}"),
            false => format!("{prefix} covers {address}, {used}"),
        })
    }
}

/// Returns true for an address that only a local network has.
fn is_private(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_of_provider = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_of_provider
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// A prefix as text. A single address has no length.
pub(crate) fn show(prefix: &IpNet) -> String {
    match prefix.prefix_len() == prefix.max_prefix_len() {
        true => prefix.addr().to_string(),
        false => prefix.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_that_covers_a_needed_address_is_found() {
        let mut needed = Protected::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        needed.add([address("192.0.2.1")], "the default gateway");
        needed.add([address("::ffff:192.0.2.1"), address("fe80::1")], "other");
        for (prefix, words) in [
            (
                "192.0.2.0/24",
                Some("192.0.2.0/24 covers 192.0.2.1, the default gateway"),
            ),
            ("192.0.2.1/32", Some("192.0.2.1 is the default gateway")),
            ("192.0.2.2/31", None),
            ("192.0.0.0/23", None),
            ("10.0.0.0/8", None),
            ("fe80::/16", Some("fe80::/16 covers fe80::1, other")),
            ("fe80::2/128", None),
        ] {
            let prefix: IpNet = prefix.parse().unwrap();
            assert_eq!(needed.words(&prefix).as_deref(), words, "{prefix}");
        }
    }

    #[test]
    fn rest_of_a_prefix_has_all_addresses_but_the_needed_ones() {
        let mut needed = Protected::default();
        for address in [
            "192.0.2.1",
            "192.0.2.4",
            "2001:db8::1",
            "10.0.0.1",
            "100.64.0.1",
            "fe80::1",
            "fd00::1",
        ] {
            needed.add([address.parse().unwrap()], "an address of this host");
        }
        for (prefix, rest) in [
            ("192.0.2.0/30", &["192.0.2.0/32", "192.0.2.2/31"][..]),
            (
                "192.0.2.0/29",
                &[
                    "192.0.2.0/32",
                    "192.0.2.5/32",
                    "192.0.2.6/31",
                    "192.0.2.2/31",
                ],
            ),
            ("192.0.2.1/32", &[]),
            ("2001:db8::/127", &["2001:db8::/128"]),
            ("10.0.0.0/24", &[]),
            ("100.64.0.0/10", &[]),
            ("fe80::/64", &[]),
            ("fd00::/64", &[]),
            ("198.51.100.0/24", &["198.51.100.0/24"]),
        ] {
            let mut found = needed.rest(&prefix.parse().unwrap());
            let mut wanted: Vec<IpNet> = rest.iter().map(|net| net.parse().unwrap()).collect();
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{prefix}");
        }
    }
}
