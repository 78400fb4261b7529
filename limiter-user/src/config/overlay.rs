//! What a fleet has put on a host's lists, beside what the host's own configuration says.
//!
//! The list maps hold both together. Which prefixes are there for the fleet alone, and which for both, is kept
//! beside them: so each of the two can take back what it has put there, and nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Lists, Settings, lists::Prefixes};

/// Prefixes on lists, by the list's name.
pub type OnLists = BTreeMap<String, Prefixes>;

/// Where the prefixes of a fleet are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// Those that the host's own configuration does not have.
    pub alone: OnLists,
    /// Those that it has too.
    pub both: OnLists,
}

impl Overlay {
    /// Where the prefixes `of_fleet` are, on a host whose own lists are those of `own`. Only what is on lists that the
    /// fleet shares there counts.
    #[must_use]
    pub fn new(own: &Settings, of_fleet: &OnLists) -> Self {
        let mut overlay = Self::default();
        for (name, prefixes) in own.lists.all() {
            let Some(of_fleet) = of_fleet.get(name).filter(|_| own.shares(name)) else {
                continue;
            };
            // No bits behind the prefix: the maps would keep them, and it would not be found again.
            let of_fleet = of_fleet.iter().map(ipnet::IpNet::trunc);
            let (both, alone) = of_fleet.partition(|prefix| prefixes.contains(prefix));
            overlay.alone.insert(name.to_owned(), alone);
            overlay.both.insert(name.to_owned(), both);
        }
        overlay.alone.retain(|_, prefixes| !prefixes.is_empty());
        overlay.both.retain(|_, prefixes| !prefixes.is_empty());
        overlay
    }

    /// All prefixes of the fleet.
    #[must_use]
    pub fn of_fleet(&self) -> OnLists {
        let mut all = self.alone.clone();
        for (name, prefixes) in &self.both {
            all.entry(name.clone()).or_default().extend(prefixes);
        }
        all
    }

    /// The host's own lists, where these are in force.
    #[must_use]
    pub fn without(&self, mut in_force: Lists) -> Lists {
        for (name, prefixes) in &self.alone {
            if let Some(list) = in_force.named_mut(name) {
                list.retain(|prefix| !prefixes.contains(prefix));
            }
        }
        in_force
    }

    /// The lists that are in force, where these are the host's own.
    #[must_use]
    pub fn with(&self, mut own: Lists) -> Lists {
        for (name, prefixes) in &self.alone {
            if let Some(list) = own.named_mut(name) {
                list.extend(prefixes);
            }
        }
        own
    }

    /// What is wrong with it, if anything.
    pub(crate) fn fault(&self, settings: &Settings) -> Option<&'static str> {
        let mut all = self.alone.iter().chain(&self.both);
        all.find_map(|(name, prefixes)| {
            if !settings.shares(name) {
                return Some("its fleet has put prefixes on a list that it does not share");
            }
            let has_bits_behind = |prefix: &ipnet::IpNet| prefix.trunc() != *prefix;
            prefixes
                .iter()
                .any(has_bits_behind)
                .then_some("a prefix of its fleet has bits set behind it")
        })
    }
}

impl Settings {
    /// Whether the fleet puts prefixes on the list with this name too.
    #[must_use]
    pub fn shares(&self, list: &str) -> bool {
        self.fleet.is_some() && self.fleet_lists.contains(list)
    }
}
