//! The list maps: prefixes with their lists, one longest-prefix-match map for each family.

use std::{collections::BTreeMap, net::IpAddr};

use aya::{
    Ebpf, Pod,
    maps::{LpmTrie, Map, MapData, lpm_trie::Key},
};
use ipnet::{IpNet, Ipv6Net};
use limiter_common::abi::Listed;

use crate::{
    Result,
    error::read_failed,
    program::{Raw, maps, maps::open_map},
    sys::{Dir, memory},
};

type Trie<T, K> = LpmTrie<T, K, Raw<Listed>>;

/// Entries that the maps of the two families must hold; at least one each.
pub(crate) fn sizes(prefixes: &BTreeMap<IpNet, Listed>) -> [u32; 2] {
    // IPv4 comes first.
    let ipv4 = prefixes.range(..IpNet::V6(Ipv6Net::default())).count();
    [ipv4, prefixes.len() - ipv4].map(|count| u32::try_from(count.max(1)).unwrap_or(u32::MAX))
}

/// Puts the prefixes into the maps of a program that is not loaded yet.
pub(crate) fn fill(ebpf: &mut Ebpf, prefixes: &BTreeMap<IpNet, Listed>) -> Result<()> {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for (prefix, listed) in prefixes {
        match prefix {
            IpNet::V4(net) => ipv4.push((net.prefix_len(), net.addr().octets(), *listed)),
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

/// The list maps of one generation.
#[derive(Debug)]
pub struct ListTables {
    ipv4: Trie<MapData, [u8; 4]>,
    ipv6: Trie<MapData, [u8; 16]>,
    /// Kernel memory of both, in bytes.
    pub memory: u64,
}

impl ListTables {
    /// Opens the maps that are pinned in the folder of a generation.
    pub fn open(folder: &Dir) -> Result<Self> {
        let open = |name: &str| open_map(folder, name);
        let (ipv4, ipv6) = (open("LISTED_IPV4")?, open("LISTED_IPV6")?);
        // The maps are as large as their lists.
        let memory = [&ipv4, &ipv6].map(|map| memory::of_trie(map, memory::room(map)));
        Ok(Self {
            ipv4: Map::LpmTrie(ipv4).try_into().map_err(read_failed)?,
            ipv6: Map::LpmTrie(ipv6).try_into().map_err(read_failed)?,
            memory: memory.iter().sum(),
        })
    }

    /// The lists that decide about a source.
    pub fn of(&self, source: IpAddr) -> Result<Listed> {
        let found = match source {
            IpAddr::V4(v4) => self.ipv4.get(&Key::new(32, v4.octets()), 0),
            IpAddr::V6(v6) => self.ipv6.get(&Key::new(128, v6.octets()), 0),
        };
        Ok(maps::found(found)?
            .map(|Raw(listed)| listed)
            .unwrap_or_default())
    }

    /// All prefixes.
    pub fn entries(&self) -> Result<Vec<(IpNet, Listed)>> {
        let ipv4 = entries::<[u8; 4]>(&self.ipv4, IpAddr::from);
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
