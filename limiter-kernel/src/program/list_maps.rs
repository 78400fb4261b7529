//! The map of the lists: their index and their prefixes, in words that are mapped into this process.

use std::{net::IpAddr, sync::atomic::Ordering::Relaxed};

use aya::{Ebpf, maps::Map};
use limiter_common::{
    abi::Listed,
    index::{Array, HEADER, Index},
};
use limiter_config::{
    Prefixes,
    index::{self, Plan},
};

use crate::{
    Error, Result,
    error::{Failed, read_failed},
    program::{
        maps,
        maps::{LISTED, open_map},
    },
    sys::{Dir, memory, words::Words},
};

impl Array for Words {
    fn word(&self, number: u32) -> Option<u64> {
        Some(self.get(number as usize)?.load(Relaxed))
    }
}

/// Writes an index into the map of a program that is not loaded yet.
pub(crate) fn fill(ebpf: &mut Ebpf, plan: Plan<'_>) -> Result<()> {
    let Map::Array(map) = maps::named(ebpf, LISTED)? else {
        return Err(maps::missing(LISTED));
    };
    let bytes = plan.length as usize * size_of::<u64>();
    let words = Words::map(map, bytes).failed("mapping the lists")?;
    plan.write(|place, word| words[place as usize].store(word, Relaxed));
    Ok(())
}

/// The index in the map that is pinned in the folder of a generation.
pub(crate) fn index(folder: &Dir) -> Result<Index> {
    let map = open_map(folder, LISTED)?;
    let words = Words::map(&map, HEADER * size_of::<u64>()).failed("mapping the lists")?;
    Index::read(&words).ok_or_else(unreadable)
}

/// The lists of one generation.
#[derive(Debug)]
pub struct ListTables {
    words: Words,
    /// Kernel memory of the map, in bytes.
    pub memory: u64,
}

impl ListTables {
    /// Opens the map that is pinned in the folder of a generation.
    pub fn open(folder: &Dir) -> Result<Self> {
        let map = open_map(folder, LISTED)?;
        let length = map.info().map_err(read_failed)?.max_entries() as usize;
        let words = Words::map(&map, length * size_of::<u64>());
        Ok(Self {
            words: words.failed("mapping the lists")?,
            memory: memory::of_maps([&map]),
        })
    }

    /// The lists that decide about a source.
    pub fn of(&self, source: IpAddr) -> Result<Listed> {
        index::listed(&self.words, source).ok_or_else(unreadable)
    }

    /// All prefixes, by the bits of the lists that they are on.
    pub fn prefixes(&self) -> Result<Vec<(Prefixes, u32)>> {
        index::prefixes(&self.words).ok_or_else(unreadable)
    }
}

fn unreadable() -> Error {
    read_failed(std::io::Error::other("the lists are damaged"))
}
