//! Models the lists that decide about a source.

use std::{collections::BTreeSet, net::IpAddr};

use limiter_config::{Lists, Prefixes};

/// The result of looking up a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// True if the source is allowed.
    pub allowed: bool,
    /// True if the source is denied.
    pub denied: bool,
    /// The source's tiers.
    pub tiers: BTreeSet<String>,
}

impl Listed {
    /// The names of all lists that decide.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let name_if = |is_listed: bool, name: &'static str| is_listed.then_some(name);
        [name_if(self.allowed, "allow"), name_if(self.denied, "deny")]
            .into_iter()
            .flatten()
            .chain(self.tiers.iter().map(String::as_str))
    }
}

/// The length of the longest of `prefixes` that contains `source`.
fn longest(prefixes: &Prefixes, source: IpAddr) -> Option<u8> {
    let holding = prefixes.iter().filter(|net| net.contains(&source));
    holding.map(|net| net.prefix_len()).max()
}

/// Looks up a source. Between `allow` and `deny`, the longest prefix decides, `deny` on a tie. Among the tiers, all
/// with the longest prefix apply.
pub fn look_up(lists: &Lists, source: IpAddr) -> Listed {
    let (allow, deny) = (longest(&lists.allow, source), longest(&lists.deny, source));
    let tiers: Vec<_> = lists
        .tiers
        .iter()
        .map(|(name, prefixes)| (name, longest(prefixes, source)))
        .collect();
    let best = tiers.iter().filter_map(|(_, length)| *length).max();
    Listed {
        allowed: allow > deny,
        denied: deny.is_some() && deny >= allow,
        tiers: tiers
            .into_iter()
            .filter(|(_, length)| length.is_some() && *length == best)
            .map(|(name, _)| name.clone())
            .collect(),
    }
}
