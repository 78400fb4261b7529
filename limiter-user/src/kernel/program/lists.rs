//! The list maps: prefixes with their lists, one longest-prefix-match map for each family.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    net::{IpAddr, Ipv4Addr},
};

use aya::{
    Ebpf, Pod,
    maps::{LpmTrie, Map, MapData, lpm_trie::Key},
};
use ipnet::IpNet;
use limiter_common::abi::{Listed, rules::ON_DENY};

use crate::kernel::{
    Result,
    error::read_failed,
    program::{Raw, maps, maps::open_map},
    sys::{Dir, memory},
};

type Trie<T, K> = LpmTrie<T, K, Raw<Listed>>;

/// The bytes of an IPv4 key: the address, and four bytes that keep the values aligned.
fn ipv4_bytes(address: Ipv4Addr) -> [u8; 8] {
    let [a, b, c, d] = address.octets();
    [a, b, c, d, 0, 0, 0, 0]
}

/// Entries that the maps of the two families must hold; at least one each.
pub(in crate::kernel) fn sizes(prefixes: &BTreeMap<IpNet, Listed>) -> (u32, u32) {
    let ipv4 = prefixes
        .keys()
        .filter(|prefix| matches!(prefix, IpNet::V4(_)))
        .count();
    let size = |count: usize| u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    (size(ipv4), size(prefixes.len() - ipv4))
}

/// Puts the prefixes into the maps of a program that is not loaded yet.
pub(in crate::kernel) fn fill(ebpf: &mut Ebpf, prefixes: &BTreeMap<IpNet, Listed>) -> Result<()> {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for (prefix, listed) in prefixes {
        match prefix {
            IpNet::V4(net) => ipv4.push((net.prefix_len(), ipv4_bytes(net.addr()), *listed)),
            IpNet::V6(net) => ipv6.push((net.prefix_len(), net.addr().octets(), *listed)),
        }
    }
    insert(maps::named(ebpf, "LISTED_IPV4")?, ipv4)?;
    insert(maps::named(ebpf, "LISTED_IPV6")?, ipv6)
}

fn insert<K: Pod>(map: &mut Map, prefixes: Vec<(u8, K, Listed)>) -> Result<()> {
    let mut trie: Trie<_, K> = map.try_into().map_err(read_failed)?;
    for (length, address, listed) in prefixes {
        let key = Key::new(length.into(), address);
        trie.insert(&key, Raw(listed), 0).map_err(read_failed)?;
    }
    Ok(())
}

/// Puts the drops of denied prefixes into the maps of a program that does not run yet, for those that it denies too.
pub(super) fn carry_over(
    ebpf: &mut Ebpf,
    prefixes: &BTreeMap<IpNet, Listed>,
    drops: &BTreeMap<IpNet, u64>,
) -> Result<()> {
    let carried = drops.iter().filter_map(|(prefix, dropped)| {
        let listed = prefixes.get(prefix)?;
        let dropped = *dropped;
        (listed.own & ON_DENY != 0).then_some((*prefix, Listed { dropped, ..*listed }))
    });
    fill(ebpf, &carried.collect())
}

/// Packets that the deny list has dropped, for each of its prefixes with any. A prefix of another list within a
/// denied one has its own entry: its drops are added to the denied prefix.
pub fn drops(entries: &[(IpNet, Listed)]) -> BTreeMap<IpNet, u64> {
    let denies = |listed: &Listed| listed.own & ON_DENY != 0;
    let denied = LazyCell::new(|| -> BTreeSet<IpNet> {
        let denied = entries.iter().filter(|(_, listed)| denies(listed));
        denied.map(|(prefix, _)| *prefix).collect()
    });
    let mut drops = BTreeMap::new();
    for (prefix, listed) in entries.iter().filter(|(_, listed)| listed.dropped > 0) {
        let decides = match denies(listed) {
            true => Some(*prefix),
            false => successors(Some(*prefix), IpNet::supernet).find(|net| denied.contains(net)),
        };
        if let Some(decides) = decides {
            let sum: &mut u64 = drops.entry(decides).or_default();
            *sum = sum.wrapping_add(listed.dropped);
        }
    }
    drops
}

/// The list maps of one generation.
#[derive(Debug)]
pub struct ListTables {
    ipv4: Trie<MapData, [u8; 8]>,
    ipv6: Trie<MapData, [u8; 16]>,
    /// Kernel memory of both, in bytes.
    pub memory: u64,
}

impl ListTables {
    /// Opens the maps that are pinned in the folder of a generation.
    pub fn open(folder: &Dir) -> Result<Self> {
        let open = |name: &str| open_map(folder, name);
        let (ipv4, ipv6) = (open("LISTED_IPV4")?, open("LISTED_IPV6")?);
        let memory = memory::of_maps([&ipv4, &ipv6]);
        Ok(Self {
            ipv4: Map::LpmTrie(ipv4).try_into().map_err(read_failed)?,
            ipv6: Map::LpmTrie(ipv6).try_into().map_err(read_failed)?,
            memory,
        })
    }

    /// The lists that decide about a source.
    pub fn of(&self, source: IpAddr) -> Result<Listed> {
        let found = match source {
            IpAddr::V4(v4) => self.ipv4.get(&Key::new(32, ipv4_bytes(v4)), 0),
            IpAddr::V6(v6) => self.ipv6.get(&Key::new(128, v6.octets()), 0),
        };
        match found {
            Ok(Raw(listed)) => Ok(listed),
            Err(aya::maps::MapError::KeyNotFound) => Ok(Listed::default()),
            Err(error) => Err(read_failed(error)),
        }
    }

    /// All prefixes.
    pub fn entries(&self) -> Result<Vec<(IpNet, Listed)>> {
        let ipv4 = entries(&self.ipv4, |[a, b, c, d, ..]| [a, b, c, d].into());
        ipv4.chain(entries(&self.ipv6, IpAddr::from)).collect()
    }
}

/// The prefixes of a map whose keys have this `address`.
fn entries<K: Pod>(
    trie: &Trie<MapData, K>,
    address: fn(K) -> IpAddr,
) -> impl Iterator<Item = Result<(IpNet, Listed)>> {
    trie.iter().map(move |entry| {
        let (key, Raw(listed)) = entry.map_err(read_failed)?;
        let length = u8::try_from(key.prefix_len()).unwrap_or(u8::MAX);
        let prefix = IpNet::new(address(key.data()), length).map_err(read_failed)?;
        Ok((prefix, listed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Settings, compile::TierBits, lists::prefix};

    #[test]
    fn drops_of_a_tier_inside_a_denied_prefix_count_for_that_prefix() {
        let net = |text: &str| prefix(text).unwrap();
        let mut settings = Settings::default();
        let lists = &mut settings.lists;
        for denied in ["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"] {
            lists.deny.insert(net(denied));
        }
        lists.allow.insert(net("10.2.0.0/16"));
        let tier = ["10.1.2.0/24", "10.3.0.0/16", "10.2.3.0/24", "192.0.2.0/24"];
        let tier = tier.into_iter().map(net).collect();
        lists.tiers.insert("tier".to_owned(), tier);
        let bits = TierBits::default().for_settings(&settings).0;
        let compiled = settings.lists.compile(&bits).into_iter();
        let counted: Vec<_> = compiled
            .map(|(prefix, listed)| {
                let dropped = match listed.lists & ON_DENY {
                    0 => 0,
                    _ => 1 << prefix.prefix_len(),
                };
                (prefix, Listed { dropped, ..listed })
            })
            .collect();
        let wanted = [
            ("10.0.0.0/8", 1 << 8 | 1 << 16),
            ("10.1.0.0/16", 1 << 16 | 1 << 24),
            ("2001:db8::/32", 1 << 32),
        ];
        let wanted = wanted.map(|(prefix, dropped)| (net(prefix), dropped));
        assert_eq!(drops(&counted), BTreeMap::from(wanted));
    }
}
