//! The program's maps, opened: sources and counters.

use std::cell::Cell;

use aya::maps::{Array, Map, MapData, MapError, PerCpuArray, PerCpuValues, ProgramArray};
use limiter_common::{
    abi::{
        Share, Table,
        counters::{Count, Counters, FAST_PATH, FULL_PATH, LimitCounters},
        events::{WATCHERS, Watched},
        rules::{BUDGETS, ROWS},
    },
    arithmetic::bucket,
    pod::Pod,
    policy::second_chance::{Place, WORDS},
    table::{Seed, key::SourceKey},
};

use crate::{
    error::{Error, Failed, Result, read_failed},
    program::raw::Raw,
    sys::{clock, folder::Dir, memory},
};

/// Names of the maps that outlive a program.
pub const MAPS: [&str; 18] = [
    "SETS",
    "OVERFLOW",
    "LOCKED",
    "TABLE",
    "SHARES",
    "SCALES",
    "LEASES",
    "REFUSED",
    "COUNTED",
    "LIMITS",
    "LIST_HITS",
    "BANS",
    BANNED_PREFIXES,
    "BANS_BY_ORIGIN",
    NEXT,
    SWITCHES,
    "WATCHED",
    "EVENTS",
];

/// The pin of the map of banned prefixes.
pub const BANNED_PREFIXES: &str = "BANNED_PREFIXES";

/// The pin of the numbers of bans and the watches: [`limiter_common::abi::events::Switches`].
pub const SWITCHES: &str = "SWITCHES";

/// The pin of the array of programs that packets go on to.
pub const NEXT: &str = "NEXT";

/// The maps of a generation.
pub const LIST_MAPS: [&str; 1] = [LISTED];

/// The pin of the map of the lists.
pub const LISTED: &str = "LISTED";

pub use crate::program::table::{Charge, Entry, Sets};

/// The maps of one attachment.
pub struct Tables {
    /// The table of sources.
    pub sets: Sets,
    counted: PerCpuArray<MapData, Raw<Counters>>,
    limits: PerCpuArray<MapData, Raw<LimitCounters>>,
    scales: Array<MapData, u64>,
    hits: PerCpuArray<MapData, Raw<Count>>,
    watched: PerCpuArray<MapData, Raw<Watched>>,
    refused: Array<MapData, [u32; WORDS as usize]>,
    /// Kernel memory of all of them, in bytes, without the banned prefixes.
    pub memory: u64,
}

impl Tables {
    /// Opens the maps that are pinned in `folder`.
    pub fn open(folder: &Dir, interface: &str) -> Result<Self> {
        let open = |name: &str| {
            open_map(folder, name).map_err(|error| Error::unreadable(interface, error))
        };
        // The memory of this trie depends on the bans: `Bans::memory` has it.
        let maps = MAPS.iter().filter(|name| **name != BANNED_PREFIXES);
        let maps = maps.map(|name| open(name));
        let memory = memory::of_maps(&maps.collect::<Result<Vec<_>>>()?);
        Self::new(
            |name| {
                let map = open(name)?;
                Ok(match name {
                    "SETS" | "TABLE" | "SCALES" | "REFUSED" => Map::Array(map),
                    _ => Map::PerCpuArray(map),
                })
            },
            memory,
        )
    }

    /// Opens the maps by name with `map`. They take `memory` bytes.
    pub(crate) fn new(
        mut map: impl FnMut(&'static str) -> Result<Map>,
        memory: u64,
    ) -> Result<Self> {
        let Map::Array(sets) = map("SETS")? else {
            return Err(missing("SETS"));
        };
        Ok(Self {
            sets: Sets::open(&sets, read_seed(map("TABLE")?)?)?,
            counted: map("COUNTED")?.try_into().map_err(read_failed)?,
            limits: map("LIMITS")?.try_into().map_err(read_failed)?,
            scales: map("SCALES")?.try_into().map_err(read_failed)?,
            hits: map("LIST_HITS")?.try_into().map_err(read_failed)?,
            watched: map("WATCHED")?.try_into().map_err(read_failed)?,
            refused: map("REFUSED")?.try_into().map_err(read_failed)?,
            memory,
        })
    }

    /// Counters of the fast path, of all CPUs.
    pub fn fast_path(&self) -> Result<Counters> {
        self.row(FAST_PATH)
    }

    /// Counters of both paths, of all CPUs.
    pub fn counters(&self) -> Result<Counters> {
        Ok(sum(&[self.row(FAST_PATH)?, self.row(FULL_PATH)?]))
    }

    fn row(&self, row: u32) -> Result<Counters> {
        Ok(sum(&of_cpus(&self.counted, row)?))
    }

    /// Counters of the limit in `slot` on the full path, of all CPUs. [`Self::fast_path`] has those of the fast path.
    pub fn limit(&self, slot: u32) -> Result<LimitCounters> {
        let of_cpus = of_cpus(&self.limits, slot)?;
        let total = |count: fn(&LimitCounters) -> Count| of_cpus.iter().map(count).sum();
        Ok(LimitCounters {
            admitted: total(|counters| counters.admitted),
            dropped: total(|counters| counters.dropped),
            would_drop: total(|counters| counters.would_drop),
        })
    }

    /// The [`limiter_common::arithmetic::scale`] of the limit in `slot`.
    pub fn scale(&self, slot: u32) -> Result<u64> {
        self.scales.get(&slot, 0).map_err(read_failed)
    }

    /// Writes the [`limiter_common::arithmetic::scale`] of the limit in `slot`. It applies to the next packet.
    pub fn set_scale(&mut self, slot: u32, word: u64) -> Result<()> {
        self.scales.set(slot, word, 0).map_err(read_failed)
    }

    /// Packets from sources on the list with this bit.
    pub fn hits(&self, bit: u32) -> Result<Count> {
        Ok(of_cpus(&self.hits, bit)?.into_iter().sum())
    }

    /// Nanoseconds since the program refused a new source, and until it has forgotten that; none if it has.
    pub fn refused(&self, key: &SourceKey, now: u64) -> Result<Option<(u64, u64)>> {
        let place = Place::of(&self.sets.seed, key, self.sets.number);
        let line = self.refused.get(&place.line, 0).map_err(read_failed)?;
        Ok(place.times(&line.map(Cell::new), now))
    }

    /// Wanted packets that were not reported to the watchers.
    pub fn events_lost(&self) -> Result<u64> {
        let mut lost = (0..WATCHERS).map(|place| self.lost_by(place));
        // Wraps, as all counters do.
        lost.try_fold(0, |sum: u64, lost| Ok(sum.wrapping_add(lost?)))
    }

    /// Wanted packets that were not reported to the watchers in this place.
    pub fn lost_by(&self, place: u32) -> Result<u64> {
        let lost = of_cpus(&self.watched, place)?
            .into_iter()
            .map(|watched| watched.lost);
        Ok(lost.fold(0, u64::wrapping_add))
    }

    /// Prepares a change. New limits (`slots`) and new lists (`bits`) begin with zero counters and without buckets.
    /// `epochs` has slot and epoch of each limit: entries that have missed too many changes are marked.
    pub fn prepare(
        &mut self,
        slots: &[u32],
        bits: &[u32],
        epochs: impl Iterator<Item = (u32, u32)>,
    ) -> Result<()> {
        for slot in slots {
            self.limits.set(*slot, zeros()?, 0)?;
            self.set_scale(*slot, 0)?;
        }
        for bit in bits {
            self.hits.set(*bit, zeros()?, 0)?;
        }
        self.forget_slots(slots);
        for (slot, epoch) in epochs {
            self.sets.age(slot, epoch);
        }
        Ok(())
    }

    /// Cleans up after a change. Removed limits (`left`) lose their buckets. Limits that have entered or left shadow
    /// mode (`turned`) count refused packets from zero.
    pub fn clean_up(&self, left: &[u32], turned: &[u32]) {
        self.forget_slots(left);
        if !turned.is_empty() {
            self.sets.forget_refused(turned);
        }
    }

    fn forget_slots(&self, slots: &[u32]) {
        if !slots.is_empty() {
            self.sets.forget_where(|key| slots.contains(&key.slot()));
        }
    }
}

/// The values of each CPU at `index` of a map.
pub(crate) fn of_cpus<T: Pod + Copy + 'static>(
    map: &PerCpuArray<MapData, Raw<T>>,
    index: u32,
) -> Result<Vec<T>> {
    let of_cpus = map.get(&index, 0).map_err(read_failed)?;
    Ok(of_cpus.iter().map(|Raw(value)| *value).collect())
}

/// A zero for each CPU.
pub(crate) fn zeros<T: Pod + Copy + 'static>() -> Result<PerCpuValues<Raw<T>>> {
    let cpus = clock::possible_cpus()?;
    PerCpuValues::try_from(vec![Raw(T::ZEROS); cpus]).failed("counting the CPUs")
}

fn sum(counters: &[Counters]) -> Counters {
    counters
        .iter()
        .fold(Counters::default(), |sum, part| Counters {
            by_reason: std::array::from_fn(|i| sum.by_reason[i] + part.by_reason[i]),
            sources_added: sum.sources_added.wrapping_add(part.sources_added),
            sources_removed: sum.sources_removed.wrapping_add(part.sources_removed),
            came_again: sum.came_again.wrapping_add(part.came_again),
            second_chances: sum.second_chances.wrapping_add(part.second_chances),
            delayed: sum.delayed.wrapping_add(part.delayed),
            delays: std::array::from_fn(|i| sum.delays[i] + part.delays[i]),
            proven: sum.proven.wrapping_add(part.proven),
        })
}

/// Writes the first content of a new table: its seed, and the buckets of the new-source limit, which are full at
/// `full_at` (nanoseconds, possibly in the future). A TAT of 0 would mean that there is no such bucket.
pub(crate) fn fill_table(ebpf: &mut aya::Ebpf, seed: Seed, full_at: u64) -> Result<()> {
    let new_sources = bucket::time(bucket::ticks(full_at));
    let mut table: Array<_, Raw<Table>> = named(ebpf, "TABLE")?.try_into().map_err(read_failed)?;
    let first = Table {
        seed,
        new_sources: [new_sources; BUDGETS as usize],
        ..Table::default()
    };
    table.set(0, Raw(first), 0).map_err(read_failed)?;
    change_shares(ebpf, |_, share| share.new_sources = new_sources)
}

/// Changes each row of the shares.
pub(super) fn change_shares(
    ebpf: &mut aya::Ebpf,
    change: impl Fn(usize, &mut Share),
) -> Result<()> {
    let mut shares: Array<_, Raw<Share>> = named(ebpf, "SHARES")?.try_into()?;
    for row in 0..ROWS {
        let Raw(mut share) = shares.get(&row, 0).map_err(read_failed)?;
        change(row as usize, &mut share);
        shares.set(row, Raw(share), 0).map_err(read_failed)?;
    }
    Ok(())
}

/// A map of the built-in object.
pub(super) fn named<'a>(ebpf: &'a mut aya::Ebpf, name: &str) -> Result<&'a mut Map> {
    ebpf.map_mut(name).ok_or_else(|| missing(name))
}

/// Error for a built-in object without `name`: the build is broken.
pub(super) fn missing(name: &str) -> Error {
    let why = format!("the built-in object lacks {name}");
    let advice = "this build of limiter is broken: reinstall it";
    Error::load("program", &why, advice)
}

/// The seed of the table that is pinned in `folder`.
pub(crate) fn seed_of(folder: &Dir) -> Result<Seed> {
    read_seed(Map::Array(open_map(folder, "TABLE")?))
}

/// The map that is pinned as `name` in `folder`.
pub(crate) fn open_map(folder: &Dir, name: &str) -> Result<MapData> {
    let pin = folder.pin(name);
    let pin = pin.map_err(|error| Error::path("opening", folder.path().join(name), error))?;
    MapData::from_pin(pin.path()).map_err(read_failed)
}

/// Name in the object of the map that is pinned as [`NEXT`]. The kernel refuses mixed kinds of programs in one.
pub(crate) const fn next_of(frags: bool) -> &'static str {
    if frags { "NEXT_FRAGS" } else { NEXT }
}

/// Id of the program at `index` of the pinned array of programs.
pub(crate) fn next_id(folder: &Dir, index: u32) -> Result<Option<u32>> {
    // The map is opened as numbers, because the kernel returns the id of the program on reads.
    let array: Array<_, u32> = Map::Array(open_map(folder, NEXT)?).try_into()?;
    found(array.get(&index, 0))
}

/// The result of a search in a map: none if the key is not there.
pub(super) fn found<T>(found: Result<T, MapError>) -> Result<Option<T>> {
    match found {
        Err(MapError::KeyNotFound) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Empties `index` of the pinned array of programs, if a program is there.
pub(crate) fn clear_next(folder: &Dir, index: u32) -> Result<()> {
    let mut array: ProgramArray<_> = Map::ProgramArray(open_map(folder, NEXT)?).try_into()?;
    // The kernel refuses if there is no program.
    let _ = array.clear_index(&index);
    Ok(())
}

fn read_seed(map: Map) -> Result<Seed> {
    let table: Array<_, Raw<Table>> = map.try_into().map_err(read_failed)?;
    let Raw(table) = table.get(&0, 0).map_err(read_failed)?;
    Ok(table.seed)
}
