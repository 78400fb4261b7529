//! Finds the lists that decide about a source: the longest prefix that contains it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;
use limiter_common::{
    abi::Listed,
    table::key::{Address, IPV4, IPV6, KeyMask, Words},
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
            let key = (family, *bits, masked(source, *bits));
            self.listed.get(&key)
        });
        longest.copied().unwrap_or(0)
    }
}

/// The first `bits` of an address.
fn masked(source: &Address, bits: u8) -> Words {
    let bits = u32::from(bits);
    let mask = match source.family {
        IPV4 => KeyMask::prefixes(bits, 0).ipv4,
        IPV6 => KeyMask::prefixes(0, bits).ipv6,
        _ => [0; 2],
    };
    [source.words[0] & mask[0], source.words[1] & mask[1]]
}
