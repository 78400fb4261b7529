//! Which lists decide about a source: the longest prefix that it is in.

use std::collections::{BTreeMap, HashMap};

use ipnet::IpNet;
use limiter_common::{
    key::{Address, IPV4, KeyMask, Words},
    layout::Listed,
};

use crate::config::key::address;

/// Prefixes of one length, by the words of their addresses.
#[derive(Debug)]
struct Length {
    mask: Words,
    listed: HashMap<Words, u32>,
}

/// All prefixes that are on lists.
#[derive(Debug)]
pub struct Lists {
    /// Of each family the longest first.
    ipv4: Vec<Length>,
    ipv6: Vec<Length>,
}

impl Lists {
    pub fn new(prefixes: &BTreeMap<IpNet, Listed>) -> Self {
        Self {
            ipv4: of_family(prefixes, true),
            ipv6: of_family(prefixes, false),
        }
    }

    /// Bits of the lists.
    pub fn of(&self, source: &Address) -> u32 {
        let lengths = if source.family == IPV4 {
            &self.ipv4
        } else {
            &self.ipv6
        };
        let longest = lengths
            .iter()
            .find_map(|length| length.listed.get(&and(source.words, length.mask)));
        longest.copied().unwrap_or(0)
    }
}

fn and([a, b]: Words, [c, d]: Words) -> Words {
    [a & c, b & d]
}

fn of_family(prefixes: &BTreeMap<IpNet, Listed>, ipv4: bool) -> Vec<Length> {
    let mut lengths: BTreeMap<u8, HashMap<Words, u32>> = BTreeMap::new();
    for (prefix, listed) in prefixes {
        if matches!(prefix, IpNet::V4(_)) == ipv4 {
            let of_length = lengths.entry(prefix.prefix_len()).or_default();
            of_length.insert(address(prefix.network()).words, listed.lists);
        }
    }
    let longest_first = lengths.into_iter().rev();
    longest_first
        .map(|(bits, listed)| {
            let mask = if ipv4 {
                KeyMask::prefixes(bits.into(), 0).ipv4
            } else {
                KeyMask::prefixes(0, bits.into()).ipv6
            };
            Length { mask, listed }
        })
        .collect()
}
