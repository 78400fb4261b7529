//! Which lists decide about a source.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use limiter_user::config::Lists;

/// What the lists say of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// It is allowed.
    pub allowed: bool,
    /// It is denied.
    pub denied: bool,
    /// Its tiers.
    pub tiers: BTreeSet<String>,
}

impl Listed {
    /// The names of all lists that decide.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let of = |on: bool, name: &'static str| on.then_some(name);
        [of(self.allowed, "allow"), of(self.denied, "deny")]
            .into_iter()
            .flatten()
            .chain(self.tiers.iter().map(String::as_str))
    }
}

/// The length of the longest of `prefixes` that holds `source`.
fn longest<'a>(prefixes: impl IntoIterator<Item = &'a IpNet>, source: IpAddr) -> Option<u8> {
    let holding = prefixes.into_iter().filter(|net| net.contains(&source));
    holding.map(IpNet::prefix_len).max()
}

/// Of `allow` and `deny` the longest prefix decides, and `deny` where both have it. Among the tiers it is
/// the longest prefix, too: all that have it.
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
