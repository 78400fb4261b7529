//! Prefixes that a fleet adds to a host's lists, beside the host's own configuration.
//!
//! The list maps hold both together. The overlay notes which prefixes only the fleet has added, and which both have.
//! So each of the two can remove its own prefixes, and no others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Prefixes, Settings};

/// Prefixes on lists, by the list's name.
pub type OnLists = BTreeMap<String, Prefixes>;

/// The fleet's prefixes, by whether the host's own configuration has them too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// Prefixes that only the fleet has added.
    pub alone: OnLists,
    /// Prefixes that the host's own configuration has too.
    pub both: OnLists,
}

impl Overlay {
    /// Divides the prefixes `of_fleet` on a host with the settings `own`. Only lists that these settings share with
    /// the fleet count.
    pub fn new(own: &Settings, of_fleet: &OnLists) -> Self {
        let mut overlay = Self::default();
        for (name, prefixes) in own.lists.all() {
            let Some(of_fleet) = of_fleet.get(name).filter(|_| own.shares(name)) else {
                continue;
            };
            // Clears bits behind the prefix: the maps would keep them, and the prefix would not be found again.
            let of_fleet: Prefixes = of_fleet.iter().map(|net| net.trunc()).collect();
            let [alone, both] = [
                of_fleet.difference(prefixes).collect(),
                of_fleet.intersection(prefixes).collect(),
            ];
            overlay.alone.insert(name.to_owned(), alone);
            overlay.both.insert(name.to_owned(), both);
        }
        overlay.alone.retain(|_, prefixes| !prefixes.is_empty());
        overlay.both.retain(|_, prefixes| !prefixes.is_empty());
        overlay
    }

    /// All prefixes of the fleet.
    pub fn of_fleet(&self) -> OnLists {
        let mut all = self.alone.clone();
        for (name, prefixes) in &self.both {
            all.entry(name.clone()).or_default().extend(prefixes);
        }
        all
    }

    /// The host's own settings, given those in force.
    pub fn without(&self, mut in_force: Settings) -> Settings {
        for (name, prefixes) in &self.alone {
            if let Some(list) = in_force.lists.named_mut(name) {
                list.retain(|prefix| !prefixes.contains(prefix));
            }
        }
        in_force
    }

    /// The settings in force, given the host's own.
    pub fn with(&self, mut own: Settings) -> Settings {
        for (name, prefixes) in &self.alone {
            if let Some(list) = own.lists.named_mut(name) {
                list.extend(prefixes);
            }
        }
        own
    }

    /// The overlay's fault, if it has one.
    pub fn fault(&self, settings: &Settings) -> Option<&'static str> {
        let mut all = self.alone.iter().chain(&self.both);
        all.find_map(|(name, prefixes)| {
            if !settings.shares(name) {
                return Some("its fleet has put prefixes on a list that it does not share");
            }
            let has_bits_behind = |prefix: ipnet::IpNet| prefix.trunc() != prefix;
            prefixes
                .iter()
                .any(has_bits_behind)
                .then_some("a prefix of its fleet has bits set after its length")
        })
    }
}

impl Settings {
    /// Returns true if the fleet may add prefixes to the list with this name.
    pub fn shares(&self, list: &str) -> bool {
        self.fleet.is_some() && self.fleet_lists.contains(list)
    }
}
