//! The bits of the lists that limits match on.

use std::collections::{BTreeMap, BTreeSet};

use limiter_common::abi::rules::{FIRST_TIER, LISTS_MAX, ON_ALLOW, ON_DENY};
use serde::{Deserialize, Serialize};

use super::{
    Destination, Invalid, Prefixes, Settings, invalid,
    lists::{ALLOW, DENY},
    matches::{set_name, set_of},
};

/// The bit of each tier. It stays while other tiers are added and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierBits(pub BTreeMap<String, u32>);

impl TierBits {
    /// Bits for the tiers of `settings` and for the sets of prefixes, and the newly assigned ones. Names that have a
    /// bit keep it.
    pub fn for_settings(&self, settings: &Settings) -> (Self, Vec<u32>) {
        let limits = settings.limits.iter();
        let sets = limits.flat_map(|limit| limit.matches.sets());
        let names: BTreeSet<_> = settings.lists.tiers.keys().cloned().chain(sets).collect();
        let mut bits = self.0.clone();
        bits.retain(|name, _| names.contains(name));
        let mut new = Vec::new();
        for name in names {
            if bits.contains_key(&name) {
                continue;
            }
            let in_use = |bit: &u32| bits.values().any(|other| other == bit);
            let left = |bit: &u32| self.0.values().any(|other| other == bit);
            let mut free = (FIRST_TIER..LISTS_MAX).filter(|bit| !in_use(bit));
            // Prefers a bit that no tier had before this change. There are as many bits as tiers.
            let bit = free.clone().find(|bit| !left(bit)).or_else(|| free.next());
            let bit = bit.unwrap_or(LISTS_MAX - 1);
            new.push(bit);
            bits.insert(name, bit);
        }
        (Self(bits), new)
    }

    /// Names of the tiers.
    pub fn tiers(&self) -> impl Iterator<Item = &String> {
        self.0.keys().filter(|name| set_of(name).is_none())
    }

    /// The sets of prefixes, with their bits.
    pub(super) fn sets(&self) -> impl Iterator<Item = (Prefixes, u32)> {
        let sets = self.0.iter();
        sets.filter_map(|(name, bit)| Some((set_of(name)?, 1 << bit)))
    }

    /// The number of a list's bit.
    pub fn of(&self, name: &str) -> Option<u32> {
        match name {
            ALLOW => Some(ON_ALLOW.trailing_zeros()),
            DENY => Some(ON_DENY.trailing_zeros()),
            tier => self.0.get(tier).copied(),
        }
    }

    /// The bits of lists, and of the set of the prefixes among them.
    pub fn mask(&self, places: &[Destination]) -> Result<u32, Invalid> {
        let lists = places.iter().filter_map(|place| match place {
            Destination::List(name) => Some(name.clone()),
            Destination::Prefix(_) => None,
        });
        let mut names = lists.chain(set_name(places));
        names.try_fold(0, |bits, name| {
            let bit = self
                .of(&name)
                .ok_or_else(|| invalid!("there is no list '{name}': write it under [lists]"))?;
            Ok(bits | 1 << bit)
        })
    }
}
