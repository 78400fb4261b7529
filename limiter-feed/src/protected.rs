//! Addresses that no feed and no fleet bans, because the host needs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
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
}
