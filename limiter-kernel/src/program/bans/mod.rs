//! Bans, in maps that all generations share: one ban for each prefix and origin, and for the packet path, the bans of each
//! prefix together, in one map of addresses and one of prefixes. Only a holder of the attachment's lock changes them.
//!
//! A command that is killed leaves all bans as they were, or all as they should be: they have the number of their change,
//! which one store puts in force ([`limiter_common::policy::ban`]). Only reasons of bans that were renewed may be new
//! already. The number of banned prefixes, which switches the program's lookups on, may then be too high. The next edit
//! corrects it, and removes what is left.

mod edit;
mod record;
mod settle;

use std::{collections::HashMap as StdHashMap, net::IpAddr, os::fd::AsFd, sync::atomic::Ordering};

use aya::maps::{HashMap, IterableMap, LpmTrie, Map, MapData, MapError, lpm_trie::Key};
use ipnet::IpNet;
use limiter_common::{
    abi::{Ban, BanCounts, BanKey, OWNERS_MAX, PrefixBans},
    policy::ban::{NESTED, drops, is_over, later, throttles},
};

use crate::{
    Failed, Result,
    program::{
        Raw,
        maps::{self, open_map},
    },
    sys::{Dir, bpf, memory, words::Words},
};
use record::{Address, WHOLE, in_force, is_by_hand, key_of, prefix_of, record_key};

pub use record::{BY_HAND, ban, origin, reason, text};

/// The maps, in the order in which [`Bans::new`] takes them.
const NAMES: [&str; 4] = [
    "BANS_BY_ORIGIN",
    "BANS",
    maps::BANNED_PREFIXES,
    maps::SWITCHES,
];

/// The bans that drop the packets of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropping {
    /// The banned prefix.
    pub prefix: IpNet,
    /// The ban of this prefix that ends last.
    pub ban: Ban,
    /// Packets that the bans of this prefix have dropped.
    pub dropped: u64,
}

/// The bans of one attachment.
pub struct Bans {
    by_origin: HashMap<MapData, Raw<BanKey>, Raw<Ban>>,
    addresses: HashMap<MapData, Address, Raw<PrefixBans>>,
    prefixes: LpmTrie<MapData, [u8; 16], Raw<PrefixBans>>,
    /// [`BanCounts`], the first words of the switches.
    state: Words,
}

impl Bans {
    /// Opens the maps that are pinned in the folder of an attachment.
    pub fn open(folder: &Dir) -> Result<Self> {
        Self::new(|name| open_map(folder, name))
    }

    /// Opens the maps, which `open` returns by name.
    pub(crate) fn new(open: impl Fn(&'static str) -> Result<MapData>) -> Result<Self> {
        let [by_origin, addresses, prefixes, state] = NAMES.map(open);
        let state = Words::map(&state?, size_of::<BanCounts>());
        Ok(Self {
            by_origin: Map::HashMap(by_origin?).try_into()?,
            addresses: Map::HashMap(addresses?).try_into()?,
            prefixes: Map::LpmTrie(prefixes?).try_into()?,
            state: state.failed("memory-mapping the map SWITCHES")?,
        })
    }

    /// Kernel memory of the banned prefixes, in bytes.
    pub fn memory(&self) -> u64 {
        let [_, prefixes] = self.banned().counts;
        memory::of_trie(self.prefixes.map(), prefixes)
    }

    /// The bans that have not ended at `now`, in no order. A prefix has one for each origin that bans it.
    pub fn at(&self, now: u64) -> Result<Vec<(IpNet, Ban)>> {
        let change = self.banned().change;
        let mut all = Vec::new();
        for (Raw(key), Raw(ban)) in self.records()? {
            let ban = in_force(&ban, change);
            if !is_over(ban.ends.until, now) {
                all.push((prefix_of(key.bits, key.address)?, ban));
            }
        }
        Ok(all)
    }

    /// Packets that the bans of each prefix have dropped.
    pub fn dropped(&self) -> Result<StdHashMap<IpNet, u64>> {
        let all = self.sums()?.into_iter();
        Ok(all.map(|(prefix, sum)| (prefix, sum.dropped)).collect())
    }

    /// All bans, also those of a change that is not in force.
    fn records(&self) -> Result<Vec<(Raw<BanKey>, Raw<Ban>)>> {
        match self.banned().bans {
            0 => Ok(Vec::new()),
            _ => bpf::read_all(self.by_origin.map().fd().as_fd()).failed("reading the bans"),
        }
    }

    /// All banned prefixes, also those of a change that is not in force.
    fn sums(&self) -> Result<Vec<(IpNet, PrefixBans)>> {
        let counted = self.banned().counts.into_iter();
        let mut all = Vec::new();
        for (count, map) in counted.zip([self.addresses.map(), self.prefixes.map()]) {
            if count > 0 {
                let read: Vec<(Address, Raw<PrefixBans>)> =
                    bpf::read_all(map.fd().as_fd()).failed("reading the banned prefixes")?;
                for (key, Raw(sum)) in read {
                    all.push((prefix_of(key.prefix_len(), key.data())?, sum));
                }
            }
        }
        Ok(all)
    }

    fn banned(&self) -> BanCounts {
        let word = |index: usize| {
            self.state
                .get(index)
                .map_or(0, |word| word.load(Ordering::Acquire))
        };
        BanCounts {
            counts: [word(0), word(1)],
            first_end: word(2),
            change: word(3),
            bans: word(4),
        }
    }

    /// Each word is stored in one step. The first end is the last one, because it may say that nothing is left to settle.
    fn write(&self, banned: BanCounts) {
        let [addresses, prefixes] = banned.counts;
        for (index, value) in [
            (0, addresses),
            (1, prefixes),
            (4, banned.bans),
            (3, banned.change),
            (2, banned.first_end),
        ] {
            if let Some(word) = self.state.get(index) {
                word.store(value, Ordering::Release);
            }
        }
    }

    /// The bans that drop packets of a source at `now`. `allowed`: see [`limiter_common::abi::Listed::allowed`].
    pub fn of(&self, source: IpAddr, allowed: u32, now: u64) -> Result<Option<Dropping>> {
        self.dropping(key_of(&source.into()), allowed, now)
    }

    /// True if bans put a source on the list of throttled ones at `now`. `allowed`: see [`Bans::of`].
    pub fn throttles(&self, source: IpAddr, allowed: u32, now: u64) -> Result<bool> {
        let is_found = |sum: &PrefixBans, change| throttles(sum, change, allowed, now);
        Ok(self.find(key_of(&source.into()), is_found)?.is_some())
    }

    /// The bans at `now` of the longest prefix that contains this one and is shorter.
    pub fn around(&self, prefix: &IpNet, now: u64) -> Result<Option<Dropping>> {
        let key = key_of(prefix);
        match key.prefix_len().checked_sub(1) {
            Some(bits) => self.dropping(Key::new(bits, key.data()), 0, now),
            None => Ok(None),
        }
    }

    fn dropping(&self, key: Address, allowed: u32, now: u64) -> Result<Option<Dropping>> {
        let is_found = |sum: &PrefixBans, change| drops(sum, change, allowed, now);
        match self.find(key, is_found)? {
            Some((prefix, sum)) => self.last_of(prefix, &sum, allowed, now),
            None => Ok(None),
        }
    }

    /// Looks for bans as the program does. `is_found` gets the bans of a prefix, and the last change in force.
    fn find(
        &self,
        mut key: Address,
        is_found: impl Fn(&PrefixBans, u64) -> bool,
    ) -> Result<Option<(IpNet, PrefixBans)>> {
        let change = self.banned().change;
        let mut found = found_in(self.addresses.get(&key, 0))?;
        for _ in 0..=NESTED {
            if let Some(sum) = found.filter(|sum| is_found(sum, change)) {
                let prefix = prefix_of(sum.bits, key.data())?.trunc();
                return Ok(Some((prefix, sum)));
            }
            found = found_in(self.prefixes.get(&key, 0))?;
            let Some(sum) = found else { break };
            key = Key::new(sum.bits.saturating_sub(1), key.data());
        }
        Ok(None)
    }

    /// The ban of a prefix that ends last, of those that drop packets: of those by hand, if the source is allowed.
    fn last_of(
        &self,
        prefix: IpNet,
        sum: &PrefixBans,
        allowed: u32,
        now: u64,
    ) -> Result<Option<Dropping>> {
        let mut last: Option<Ban> = None;
        for (_, ban) in self.owned(&prefix, sum)? {
            let until = ban.ends.until;
            let drops = ban.is_throttle == 0 && (allowed == 0 || is_by_hand(&ban));
            if drops && !is_over(until, now) {
                let ends_last = |last: &Ban| later(last.ends.until, until) == until;
                if last.as_ref().is_none_or(ends_last) {
                    last = Some(ban);
                }
            }
        }
        Ok(last.map(|ban| Dropping {
            prefix,
            ban,
            dropped: sum.dropped,
        }))
    }

    /// The bans of exactly this prefix that have not ended at `now`, one for each origin.
    pub fn get(&self, prefix: &IpNet, now: u64) -> Result<Vec<Ban>> {
        let Some(sum) = self.sum(prefix)? else {
            return Ok(Vec::new());
        };
        let mut bans: Vec<_> = self
            .owned(prefix, &sum)?
            .into_iter()
            .map(|(_, ban)| ban)
            .collect();
        bans.retain(|ban| !is_over(ban.ends.until, now));
        Ok(bans)
    }

    /// The bans of exactly this prefix together.
    fn sum(&self, prefix: &IpNet) -> Result<Option<PrefixBans>> {
        let key = key_of(prefix);
        let found = match key.prefix_len() {
            WHOLE => self.addresses.get(&key, 0),
            _ => self.prefixes.get(&key, 0),
        };
        // The trie finds a shorter prefix too.
        Ok(found_in(found)?.filter(|sum| sum.bits == key.prefix_len()))
    }

    /// The bans of a prefix with their numbers, as they are in force: also those that have ended.
    fn owned(&self, prefix: &IpNet, sum: &PrefixBans) -> Result<Vec<(u32, Ban)>> {
        let change = self.banned().change;
        let mut owned = Vec::new();
        for owner in (0..OWNERS_MAX).filter(|owner| sum.owners >> owner & 1 != 0) {
            let key = Raw(record_key(prefix, owner));
            if let Some(Raw(ban)) = maps::found(self.by_origin.get(&key, 0))? {
                owned.push((owner, in_force(&ban, change)));
            }
        }
        Ok(owned)
    }
}

fn found_in(found: Result<Raw<PrefixBans>, MapError>) -> Result<Option<PrefixBans>> {
    Ok(maps::found(found)?.map(|Raw(sum)| sum))
}

/// Removes all bans of an attachment that is to be unpinned, one by one: freeing a large trie at once would stop a CPU
/// for seconds. Maps that are not there, or cannot be read, are left to the kernel.
pub(crate) fn clear(folder: &Dir) {
    if let Ok(mut bans) = Bans::open(folder) {
        for (prefix, _) in bans.sums().unwrap_or_default() {
            let _ = bans.put(&prefix, None);
        }
        for (Raw(key), _) in bans.records().unwrap_or_default() {
            let _ = bans.put_record(key, None);
        }
    }
}
