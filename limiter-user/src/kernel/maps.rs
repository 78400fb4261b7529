//! The program's maps, opened: sources and counters.

use std::{collections::BTreeSet, os::fd::AsFd, path::Path};

use aya::maps::{Array, HashMap, IterableMap, Map, MapData, MapError, MapInfo, PerCpuArray};
use limiter_common::{
    bucket,
    counters::{Count, Counters, LimitCounters, PLAIN, SEVERAL},
    key::{SLOTS, SourceKey},
    layout::{Cpu, Place, Source, Table},
    rules::LISTS_MAX,
};

use super::{
    clock,
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
    limits: PerCpuArray<MapData, Wire<LimitCounters>>,
    hits: PerCpuArray<MapData, Wire<Count>>,
    /// Kernel memory of all of them, in bytes.
    pub memory: u64,
}

/// What a map looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    kind: u32,
    key: usize,
    value: usize,
    /// Number of entries; none: as many as the table has places.
    entries: Option<u32>,
}

const fn shape(name: &str) -> Shape {
    const HASH: u32 = 1;
    const ARRAY: u32 = 2;
    const PROGRAM_ARRAY: u32 = 3;
    const PER_CPU_ARRAY: u32 = 6;
    let (kind, key, value, entries) = match name.as_bytes() {
        b"SOURCES" => (HASH, size_of::<SourceKey>(), size_of::<Source>(), None),
        b"PLACES" => (ARRAY, 4, size_of::<Place>(), None),
        b"TABLE" => (ARRAY, 4, size_of::<Table>(), Some(1)),
        b"COUNTERS" => (PER_CPU_ARRAY, 4, size_of::<Counters>(), Some(2)),
        b"LIMITS" => (PER_CPU_ARRAY, 4, size_of::<LimitCounters>(), Some(SLOTS)),
        b"LIST_HITS" => (PER_CPU_ARRAY, 4, size_of::<Count>(), Some(LISTS_MAX)),
        b"CPUS" => (PER_CPU_ARRAY, 4, size_of::<Cpu>(), Some(1)),
        _ => (PROGRAM_ARRAY, 4, 4, Some(1)),
    };
    Shape {
        kind,
        key,
        value,
        entries,
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            kind, key, value, ..
        } = self;
        write!(f, "type {kind}, key of {key} bytes, value of {value}")?;
        self.entries
            .map_or(Ok(()), |entries| write!(f, ", {entries} entries"))
    }
}

/// Refuses maps that another build has pinned: they are never reused, because a program over maps of
/// another shape reads what it did not write.
pub fn check_shapes(folder: &Path, interface: &str) -> Result<()> {
    let mut capacities = Vec::new();
    for name in pins::MAPS {
        let info =
            MapInfo::from_pin(folder.join(name)).map_err(|error| unreadable(interface, &error))?;
        let wanted = shape(name);
        let found = Shape {
            kind: info.map_type().map_or(u32::MAX, |kind| kind as u32),
            key: info.key_size() as usize,
            value: info.value_size() as usize,
            entries: wanted.entries.map(|_| info.max_entries()),
        };
        if found != wanted || info.map_flags() != 0 {
            return Err(Error::OtherShape {
                interface: interface.to_owned(),
                map: name.to_owned(),
                found: found.to_string(),
                wanted: wanted.to_string(),
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
pub(super) fn flat(error: &dyn std::error::Error) -> String {
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
        let maps = pins::MAPS
            .map(open)
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        let memory = memory::of_maps(&maps.iter().collect::<Vec<_>>());
        Self::new(
            |name| {
                let map = open(name)?;
                Ok(if name == "SOURCES" {
                    Map::HashMap(map)
                } else {
                    Map::PerCpuArray(map)
                })
            },
            memory,
        )
    }

    /// Those of a program that is not pinned.
    pub fn take(program: &mut Program) -> Result<Self> {
        Self::new(|name| program.take_map(name), 0)
    }

    fn new(mut map: impl FnMut(&'static str) -> Result<Map>, memory: u64) -> Result<Self> {
        Ok(Self {
            sources: map("SOURCES")?.try_into().map_err(read_failed)?,
            counters: map("COUNTERS")?.try_into().map_err(read_failed)?,
            limits: map("LIMITS")?.try_into().map_err(read_failed)?,
            hits: map("LIST_HITS")?.try_into().map_err(read_failed)?,
            memory,
        })
    }

    /// What all CPUs have counted on the way past one limit.
    pub fn plain(&self) -> Result<Counters> {
        self.row(PLAIN)
    }

    /// What all CPUs have counted, on either way.
    pub fn counters(&self) -> Result<Counters> {
        Ok(sum(&[self.row(PLAIN)?, self.row(SEVERAL)?]))
    }

    fn row(&self, row: u32) -> Result<Counters> {
        let of_cpus = self.counters.get(&row, 0).map_err(read_failed)?;
        Ok(sum(&of_cpus
            .iter()
            .map(|Wire(one)| *one)
            .collect::<Vec<_>>()))
    }

    /// What all CPUs have counted for the limit in `slot`, beside [`Self::plain`].
    pub fn limit(&self, slot: u32) -> Result<LimitCounters> {
        let of_cpus = self.limits.get(&slot, 0).map_err(read_failed)?;
        let total = |of: fn(&LimitCounters) -> Count| of_cpus.iter().map(|Wire(one)| of(one)).sum();
        Ok(LimitCounters {
            passed: total(|one| one.passed),
            dropped: total(|one| one.dropped),
            would_drop: total(|one| one.would_drop),
        })
    }

    /// Packets whose source is on the list with this bit.
    pub fn hits(&self, bit: u32) -> Result<Count> {
        let of_cpus = self.hits.get(&bit, 0).map_err(read_failed)?;
        Ok(of_cpus.iter().map(|Wire(one)| *one).sum())
    }

    /// Begins to count anew for limits and lists that come, and forgets the buckets of slots.
    pub fn clear(&mut self, slots: &[u32], bits: &[u32]) -> Result<()> {
        let cpus =
            aya::util::nr_cpus().map_err(|(_, error)| Error::system("counting CPUs", error))?;
        for slot in slots {
            let zero = vec![Wire(LimitCounters::default()); cpus];
            let zero = aya::maps::PerCpuValues::try_from(zero);
            let zero = zero.map_err(|error| Error::system("counting CPUs", error))?;
            self.limits.set(*slot, zero, 0).map_err(read_failed)?;
        }
        for bit in bits {
            let zero = vec![Wire(Count::default()); cpus];
            let zero = aya::maps::PerCpuValues::try_from(zero);
            let zero = zero.map_err(|error| Error::system("counting CPUs", error))?;
            self.hits.set(*bit, zero, 0).map_err(read_failed)?;
        }
        self.forget_slots(slots)
    }

    /// Forgets all buckets of these slots.
    pub fn forget_slots(&mut self, slots: &[u32]) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let slots: BTreeSet<_> = slots.iter().collect();
        for (key, _) in self.sources()? {
            if slots.contains(&key.slot()) {
                self.forget(&key)?;
            }
        }
        Ok(())
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
        entries.sort_unstable_by_key(|(key, _)| (key.scope, key.address));
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

fn sum(counters: &[Counters]) -> Counters {
    counters
        .iter()
        .fold(Counters::default(), |sum, one| Counters {
            by_reason: std::array::from_fn(|i| sum.by_reason[i] + one.by_reason[i]),
            sources_added: sum.sources_added + one.sources_added,
            sources_removed: sum.sources_removed + one.sources_removed,
        })
}

/// Fills the newcomer limit's bucket: a word of 0 may be a time that is yet to come.
pub(super) fn fill_newcomers(program: &mut Program) -> Result<()> {
    let map = program.map_mut("TABLE")?;
    let mut table: Array<_, Wire<Table>> = map.try_into().map_err(read_failed)?;
    let first = Table {
        newcomers: bucket::time(bucket::ticks(clock::now()?)),
        ..Table::default()
    };
    table.set(0, Wire(first), 0).map_err(read_failed)
}

fn read_failed(error: MapError) -> Error {
    Error::system(
        "reading the limiter's maps",
        std::io::Error::other(flat(&error)),
    )
}
