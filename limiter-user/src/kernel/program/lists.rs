//! The list maps: prefixes to lists, the longest first, one map for each family.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use aya::{
    Ebpf,
    maps::{LpmTrie, Map, MapData, lpm_trie::Key},
};
use ipnet::IpNet;
use limiter_common::layout::Listed;

use crate::kernel::{
    error::{Error, Result},
    program::{maps::open_map, raw::Raw},
    sys::folder::Dir,
};

type Trie<T, K> = LpmTrie<T, K, Raw<Listed>>;

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
    let missing = || failed("the built-in object lacks a map".to_owned());
    let map = ebpf.map_mut("LISTED_IPV4").ok_or_else(missing)?;
    let mut ipv4: Trie<_, [u8; 4]> = map.try_into().map_err(broken)?;
    for (prefix, listed) in prefixes {
        if let IpNet::V4(net) = prefix {
            let key = Key::new(net.prefix_len().into(), net.addr().octets());
            ipv4.insert(&key, Raw(*listed), 0).map_err(broken)?;
        }
    }
    let map = ebpf.map_mut("LISTED_IPV6").ok_or_else(missing)?;
    let mut ipv6: Trie<_, [u8; 16]> = map.try_into().map_err(broken)?;
    for (prefix, listed) in prefixes {
        if let IpNet::V6(net) = prefix {
            let key = Key::new(net.prefix_len().into(), net.addr().octets());
            ipv6.insert(&key, Raw(*listed), 0).map_err(broken)?;
        }
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
    /// Those that are pinned in the folder of a generation.
    pub fn open(folder: &Dir) -> Result<Self> {
        let open = |name: &str| open_map(folder, name);
        let (ipv4, ipv6) = (open("LISTED_IPV4")?, open("LISTED_IPV6")?);
        let memory = crate::kernel::sys::memory::of_maps(&[&ipv4, &ipv6]);
        Ok(Self {
            ipv4: Map::LpmTrie(ipv4).try_into().map_err(broken)?,
            ipv6: Map::LpmTrie(ipv6).try_into().map_err(broken)?,
            memory,
        })
    }

    /// Which lists decide about a source.
    pub fn of(&self, source: IpAddr) -> Result<Listed> {
        let found = match source {
            IpAddr::V4(v4) => self.ipv4.get(&Key::new(32, v4.octets()), 0),
            IpAddr::V6(v6) => self.ipv6.get(&Key::new(128, v6.octets()), 0),
        };
        match found {
            Ok(Raw(listed)) => Ok(listed),
            Err(aya::maps::MapError::KeyNotFound) => Ok(Listed::default()),
            Err(error) => Err(broken(error)),
        }
    }

    /// All prefixes.
    pub fn entries(&self) -> Result<Vec<(IpNet, Listed)>> {
        let mut entries = Vec::new();
        for entry in self.ipv4.iter() {
            let (key, Raw(listed)) = entry.map_err(broken)?;
            entries.push((
                prefix(Ipv4Addr::from(key.data()).into(), key.prefix_len())?,
                listed,
            ));
        }
        for entry in self.ipv6.iter() {
            let (key, Raw(listed)) = entry.map_err(broken)?;
            entries.push((
                prefix(Ipv6Addr::from(key.data()).into(), key.prefix_len())?,
                listed,
            ));
        }
        Ok(entries)
    }
}

fn prefix(address: IpAddr, length: u32) -> Result<IpNet> {
    let length = u8::try_from(length).unwrap_or(u8::MAX);
    IpNet::new(address, length).map_err(|error| failed(error.to_string()))
}

fn failed(why: String) -> Error {
    Error::system("working on the lists", io::Error::other(why))
}

fn broken(error: aya::maps::MapError) -> Error {
    failed(crate::kernel::error::flat(&error))
}
