//! The program's maps, opened: sources and counters.

use std::{os::fd::AsFd, path::Path};

use aya::maps::{HashMap, IterableMap, Map, MapData, MapError, MapInfo, PerCpuArray};
use limiter_common::{
    counters::{Count, Counters},
    key::SourceKey,
    layout::{Place, Source, Table},
};

use super::{
    error::{Error, Result},
    memory,
    object::Program,
    pins, sys,
    wire::Wire,
};

/// A source and what the table keeps of it.
pub type Entry = (SourceKey, Source);

/// The maps of one attachment.
pub struct Tables {
    sources: HashMap<MapData, Wire<SourceKey>, Wire<Source>>,
    counters: PerCpuArray<MapData, Wire<Counters>>,
    /// Kernel memory of all of them, in bytes.
    pub memory: u64,
}

/// What a map looks like: type, key, value, flags.
const fn shape(name: &str) -> (u32, usize, usize) {
    const HASH: u32 = 1;
    const ARRAY: u32 = 2;
    const PER_CPU_ARRAY: u32 = 6;
    match name.as_bytes() {
        b"SOURCES" => (HASH, size_of::<SourceKey>(), size_of::<Source>()),
        b"PLACES" => (ARRAY, 4, size_of::<Place>()),
        b"TABLE" => (ARRAY, 4, size_of::<Table>()),
        _ => (PER_CPU_ARRAY, 4, size_of::<Counters>()),
    }
}

/// Refuses maps that another build has pinned: they are never reused, because a program over maps of
/// another shape reads what it did not write.
pub fn check_shapes(folder: &Path, interface: &str) -> Result<()> {
    let mut capacities = Vec::new();
    for name in pins::MAPS {
        let info =
            MapInfo::from_pin(folder.join(name)).map_err(|error| unreadable(interface, &error))?;
        let kind = info.map_type().map_or(u32::MAX, |kind| kind as u32);
        let describe = |(kind, key, value): (u32, usize, usize)| {
            format!("type {kind}, key of {key} bytes, value of {value}")
        };
        let found = (kind, info.key_size() as usize, info.value_size() as usize);
        if found != shape(name) || info.map_flags() != 0 {
            return Err(Error::OtherShape {
                interface: interface.to_owned(),
                map: name.to_owned(),
                found: describe(found),
                wanted: describe(shape(name)),
            });
        }
        capacities.push(info.max_entries());
    }
    if capacities[0] != capacities[1] {
        return Err(Error::Unreadable {
            interface: interface.to_owned(),
            why: format!("{} sources, but {} places", capacities[0], capacities[1]),
        });
    }
    Ok(())
}

fn unreadable(interface: &str, error: &MapError) -> Error {
    Error::Unreadable {
        interface: interface.to_owned(),
        why: flat(error),
    }
}

/// An error with its causes, on one line.
fn flat(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables")
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl Tables {
    /// Those that are pinned in `folder`.
    pub fn open(folder: &Path, interface: &str) -> Result<Self> {
        check_shapes(folder, interface)?;
        let open = |name: &str| {
            MapData::from_pin(folder.join(name)).map_err(|error| unreadable(interface, &error))
        };
        let memory = memory_of(
            &["PLACES", "TABLE"]
                .map(open)
                .into_iter()
                .collect::<Result<Vec<_>>>()?,
        );
        Self::new(
            Map::HashMap(open("SOURCES")?),
            Map::PerCpuArray(open("COUNTERS")?),
            memory,
        )
    }

    /// Those of a program that is not pinned.
    pub fn take(program: &mut Program) -> Result<Self> {
        Self::new(
            program.take_map("SOURCES")?,
            program.take_map("COUNTERS")?,
            0,
        )
    }

    fn new(sources: Map, counters: Map, memory: u64) -> Result<Self> {
        let sources: HashMap<MapData, _, _> = sources.try_into().map_err(read_failed)?;
        let counters: PerCpuArray<MapData, _> = counters.try_into().map_err(read_failed)?;
        let memory = memory
            + memory::of_map(sources.map().fd().as_fd())
            + memory::of_map(counters.map().fd().as_fd());
        Ok(Self {
            sources,
            counters,
            memory,
        })
    }

    /// What all CPUs have counted.
    pub fn counters(&self) -> Result<Counters> {
        let of_cpus = self.counters.get(&0, 0).map_err(read_failed)?;
        Ok(of_cpus
            .iter()
            .fold(Counters::default(), |sum, Wire(one)| Counters {
                by_reason: std::array::from_fn(|i| -> Count {
                    sum.by_reason[i] + one.by_reason[i]
                }),
                sources_added: sum.sources_added + one.sources_added,
                sources_removed: sum.sources_removed + one.sources_removed,
            }))
    }

    /// One source, where it is in the table.
    pub fn source(&self, key: &SourceKey) -> Result<Option<Source>> {
        match self.sources.get(&Wire(*key), 0) {
            Ok(Wire(source)) => Ok(Some(source)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(read_failed(error)),
        }
    }

    /// Forgets a source. Returns whether it was there.
    pub fn forget(&mut self, key: &SourceKey) -> Result<bool> {
        match self.sources.remove(&Wire(*key)) {
            Ok(()) => Ok(true),
            Err(MapError::SyscallError(error))
                if error.io_error.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(false)
            }
            Err(MapError::KeyNotFound) => Ok(false),
            Err(error) => Err(read_failed(error)),
        }
    }

    /// All sources. A table that changes meanwhile may show one twice or not at all.
    pub fn sources(&self) -> Result<Vec<Entry>> {
        let mut batch = Batch::new(4_096);
        let mut entries = Vec::new();
        while batch.next(self, &mut entries)? {}
        entries.sort_unstable_by_key(|(key, _)| (key.family, key.address));
        entries.dedup_by_key(|(key, _)| *key);
        Ok(entries)
    }
}

/// Reads the hash map many entries at a time.
struct Batch {
    keys: Vec<Wire<SourceKey>>,
    values: Vec<Wire<Source>>,
    token: Option<u32>,
}

impl Batch {
    fn new(size: usize) -> Self {
        Self {
            keys: vec![Wire::default(); size],
            values: vec![Wire::default(); size],
            token: None,
        }
    }

    /// Appends the next entries; false at the end.
    fn next(&mut self, tables: &Tables, entries: &mut Vec<Entry>) -> Result<bool> {
        let map = tables.sources.map().fd().as_fd();
        // SAFETY: aya has compared the sizes with the map's when it made `tables.sources`.
        let read = unsafe { sys::lookup_batch(map, self.token, &mut self.keys, &mut self.values) };
        match read {
            Ok((count, token)) => {
                let pairs = self.keys.iter().zip(&self.values).take(count);
                entries.extend(pairs.map(|(Wire(key), Wire(value))| (*key, *value)));
                self.token = token;
                Ok(token.is_some())
            }
            // One chain of the hash map holds more than fits.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                *self = Self {
                    token: self.token,
                    ..Self::new(self.keys.len() * 2)
                };
                Ok(true)
            }
            Err(error) => Err(Error::system("reading the table of sources", error)),
        }
    }
}

fn memory_of(maps: &[MapData]) -> u64 {
    maps.iter()
        .map(|map| memory::of_map(map.fd().as_fd()))
        .sum()
}

fn read_failed(error: MapError) -> Error {
    Error::system(
        "reading the limiter's maps",
        std::io::Error::other(flat(&error)),
    )
}
