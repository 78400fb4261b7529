//! Finds the lists that decide about a source: the longest prefix that contains it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;
use limiter_common::{
    abi::Listed,
    table::key::{Address, KeyMask, Words},
};

use crate::config::key::address;

/// All prefixes on lists.
#[derive(Debug, Default)]
pub struct Lists {
    /// Families and lengths of the prefixes.
    lengths: BTreeSet<(u32, u8)>,
    /// Bits of the lists, by family, length and the address's words.
    listed: HashMap<(u32, u8, Words), u32>,
}

impl Lists {
    pub fn new(prefixes: &BTreeMap<IpNet, Listed>) -> Self {
        let mut lists = Self::default();
        for (prefix, listed) in prefixes {
            let Address { words, family, .. } = address(prefix.network());
            let bits = prefix.prefix_len();
            lists.lengths.insert((family, bits));
            lists.listed.insert((family, bits, words), listed.lists);
        }
        lists
    }

    /// The bits of the lists that decide about a source.
    pub fn of(&self, source: &Address) -> u32 {
        let family = source.family;
        let mut longest_first = self.lengths.range((family, 0)..=(family, u8::MAX)).rev();
        let longest = longest_first.find_map(|(_, bits)| {
            let length = u32::from(*bits);
            let mask = KeyMask {
                link_local: 0,
                ..KeyMask::prefixes(length.min(32), length)
            };
            self.listed.get(&(family, *bits, mask.masked(source).1))
        });
        longest.copied().unwrap_or(0)
    }
}
