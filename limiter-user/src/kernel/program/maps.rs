//! The program's maps, opened: sources and counters.

use aya::maps::{Array, Map, MapData, MapError, MapInfo, PerCpuArray, ProgramArray};
use limiter_common::{
    abi::{
        Cpu, LOCKS, Lease, SETS_OF_WORD, Set, Share, Source, Table,
        counters::{Count, Counters, FAST, FULL, LimitCounters},
        events::{EVENTS_BYTES, Watch, Watched},
        rules::LISTS_MAX,
    },
    arithmetic::bucket,
    table::{
        Seed,
        key::{SLOTS, SourceKey},
    },
};

use crate::kernel::{
    error::{Error, Result, flat, read_failed},
    program::{raw::Raw, table::Sets},
    sys::{folder::Dir, memory},
};

/// The maps that outlive a program.
pub const MAPS: [&str; 15] = [
    "SETS",
    "DISPLACED",
    "LOCKED",
    "TABLE",
    "SHARES",
    "LEASES",
    "COUNTED",
    "LIMITS",
    "CPUS",
    "LIST_HITS",
    "NEXT",
    "NEXT_FRAGS",
    "WATCH",
    "WATCHED",
    "EVENTS",
];

/// The maps of a generation.
pub const LIST_MAPS: [&str; 2] = ["LISTED_IPV4", "LISTED_IPV6"];

/// A source and what the table keeps of it.
pub use crate::{kernel::program::table::Charge, kernel::program::table::Entry};

/// The maps of one attachment.
pub struct Tables {
    sets: Sets,
    counted: PerCpuArray<MapData, Raw<Counters>>,
    limits: PerCpuArray<MapData, Raw<LimitCounters>>,
    hits: PerCpuArray<MapData, Raw<Count>>,
    watched: PerCpuArray<MapData, Raw<Watched>>,
    /// Kernel memory of all of them, in bytes.
    pub memory: u64,
}

/// What a map looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    kind: u32,
    key: usize,
    value: usize,
    /// Number of entries; none: by the size of the table.
    entries: Option<u32>,
    flags: u32,
}

const fn shape(name: &str) -> Shape {
    const ARRAY: u32 = 2;
    const PROGRAM_ARRAY: u32 = 3;
    const PER_CPU_ARRAY: u32 = 6;
    const RING_BUFFER: u32 = 27;
    let (kind, key, value, entries) = match name.as_bytes() {
        b"SETS" => (ARRAY, 4, size_of::<Set>(), None),
        b"DISPLACED" => (ARRAY, 4, 8, None),
        b"LOCKED" => (ARRAY, 4, 8, Some(LOCKS)),
        b"TABLE" => (ARRAY, 4, size_of::<Table>(), Some(1)),
        b"SHARES" => (ARRAY, 4, size_of::<Share>(), Some(SLOTS)),
        b"LEASES" => (PER_CPU_ARRAY, 4, size_of::<Lease>(), Some(SLOTS)),
        b"COUNTED" => (PER_CPU_ARRAY, 4, size_of::<Counters>(), Some(2)),
        b"LIMITS" => (PER_CPU_ARRAY, 4, size_of::<LimitCounters>(), Some(SLOTS)),
        b"LIST_HITS" => (PER_CPU_ARRAY, 4, size_of::<Count>(), Some(LISTS_MAX)),
        b"CPUS" => (PER_CPU_ARRAY, 4, size_of::<Cpu>(), Some(1)),
        b"WATCH" => (ARRAY, 4, size_of::<Watch>(), Some(1)),
        b"WATCHED" => (PER_CPU_ARRAY, 4, size_of::<Watched>(), Some(1)),
        b"EVENTS" => (RING_BUFFER, 0, 0, Some(EVENTS_BYTES)),
        _ => (PROGRAM_ARRAY, 4, 4, Some(2)),
    };
    Shape {
        kind,
        key,
        value,
        entries,
        flags: match name.as_bytes() {
            b"SETS" | b"WATCH" => BPF_F_MMAPABLE,
            _ => 0,
        },
    }
}

const BPF_F_MMAPABLE: u32 = 1 << 10;

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            kind,
            key,
            value,
            flags,
            ..
        } = self;
        write!(
            f,
            "type {kind}, key of {key} bytes, value of {value}, flags {flags:#x}"
        )?;
        self.entries
            .map_or(Ok(()), |entries| write!(f, ", {entries} entries"))
    }
}

/// Refuses maps that another build has pinned: they are never reused, because a program over maps of
/// another shape reads what it did not write.
pub fn check_shapes(folder: &Dir, interface: &str, names: &[&str]) -> Result<()> {
    let mut capacities = Vec::new();
    for name in names {
        let pin = folder.pin(name);
        let pin = pin.map_err(|error| unreadable(interface, &error))?;
        let info = MapInfo::from_pin(pin.path()).map_err(|error| unreadable(interface, &error))?;
        let wanted = shape(name);
        let found = Shape {
            kind: info.map_type().map_or(u32::MAX, |kind| kind as u32),
            key: info.key_size() as usize,
            value: info.value_size() as usize,
            entries: wanted.entries.map(|_| info.max_entries()),
            flags: info.map_flags(),
        };
        if found != wanted {
            return Err(Error::OtherShape {
                interface: interface.to_owned(),
                map: (*name).to_owned(),
                found: found.to_string(),
                wanted: wanted.to_string(),
            });
        }
        capacities.push(info.max_entries());
    }
    if capacities[0].div_ceil(SETS_OF_WORD) != capacities[1] {
        return Err(Error::Unreadable {
            interface: interface.to_owned(),
            why: format!(
                "{} sets, but {} words of counts",
                capacities[0], capacities[1]
            ),
        });
    }
    Ok(())
}

fn unreadable(interface: &str, error: &dyn std::error::Error) -> Error {
    Error::Unreadable {
        interface: interface.to_owned(),
        why: flat(error),
    }
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
    pub fn open(folder: &Dir, interface: &str) -> Result<Self> {
        let names = MAPS;
        check_shapes(folder, interface, &names)?;
        let open = |name: &str| {
            let pin = folder.pin(name);
            let pin = pin.map_err(|error| unreadable(interface, &error))?;
            MapData::from_pin(pin.path()).map_err(|error| unreadable(interface, &error))
        };
        let maps = names
            .iter()
            .map(|name| open(name))
            .collect::<Result<Vec<_>>>()?;
        let memory = memory::of_maps(&maps.iter().collect::<Vec<_>>());
        Self::new(
            |name| {
                let map = open(name)?;
                Ok(match name {
                    "SETS" | "TABLE" => Map::Array(map),
                    _ => Map::PerCpuArray(map),
                })
            },
            memory,
        )
    }

    /// The tables whose maps `map` opens by name. They take `memory` bytes.
    pub(in crate::kernel) fn new(
        mut map: impl FnMut(&'static str) -> Result<Map>,
        memory: u64,
    ) -> Result<Self> {
        let Map::Array(sets) = map("SETS")? else {
            return Err(read_failed(MapError::InvalidName {
                name: "SETS".to_owned(),
            }));
        };
        Ok(Self {
            sets: Sets::open(&sets, read_seed(map("TABLE")?)?)?,
            counted: map("COUNTED")?.try_into().map_err(read_failed)?,
            limits: map("LIMITS")?.try_into().map_err(read_failed)?,
            hits: map("LIST_HITS")?.try_into().map_err(read_failed)?,
            watched: map("WATCHED")?.try_into().map_err(read_failed)?,
            memory,
        })
    }

    /// What all CPUs have counted on the way past one limit.
    pub fn plain(&self) -> Result<Counters> {
        self.row(FAST)
    }

    /// What all CPUs have counted, on either way.
    pub fn counters(&self) -> Result<Counters> {
        Ok(sum(&[self.row(FAST)?, self.row(FULL)?]))
    }

    fn row(&self, row: u32) -> Result<Counters> {
        let of_cpus = self.counted.get(&row, 0).map_err(read_failed)?;
        Ok(sum(&of_cpus
            .iter()
            .map(|Raw(one)| *one)
            .collect::<Vec<_>>()))
    }

    /// What all CPUs have counted for the limit in `slot`, beside [`Self::plain`].
    pub fn limit(&self, slot: u32) -> Result<LimitCounters> {
        let of_cpus = self.limits.get(&slot, 0).map_err(read_failed)?;
        let total = |of: fn(&LimitCounters) -> Count| of_cpus.iter().map(|Raw(one)| of(one)).sum();
        Ok(LimitCounters {
            admitted: total(|one| one.admitted),
            dropped: total(|one| one.dropped),
            would_drop: total(|one| one.would_drop),
        })
    }

    /// Packets whose source is on the list with this bit.
    pub fn hits(&self, bit: u32) -> Result<Count> {
        let of_cpus = self.hits.get(&bit, 0).map_err(read_failed)?;
        Ok(of_cpus.iter().map(|Raw(one)| *one).sum())
    }

    /// Drops that somebody who watched wanted to be told of, and was not.
    pub fn events_lost(&self) -> Result<u64> {
        let of_cpus = self.watched.get(&0, 0).map_err(read_failed)?;
        let of_cpus = of_cpus.iter().map(|Raw(one)| one.lost);
        // As all counters: past the last number they go on at 0.
        Ok(of_cpus.fold(0, u64::wrapping_add))
    }

    /// Tells the table from all others of this machine.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.sets.id
    }

    /// Sources that there is room for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.sets.capacity()
    }

    /// Prepares a change. New limits (`slots`) and new lists (`bits`) begin with zero counters and without buckets.
    /// `epochs` has slot and epoch of each limit: entries that have missed too many changes are marked.
    pub fn prepare(
        &mut self,
        slots: &[u32],
        bits: &[u32],
        epochs: impl Iterator<Item = (u32, u32)>,
    ) -> Result<()> {
        self.count_anew(slots, bits)?;
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

    fn count_anew(&mut self, slots: &[u32], bits: &[u32]) -> Result<()> {
        let cpus =
            aya::util::nr_cpus().map_err(|(_, error)| Error::system("counting CPUs", error))?;
        for slot in slots {
            let zero = vec![Raw(LimitCounters::default()); cpus];
            let zero = aya::maps::PerCpuValues::try_from(zero);
            let zero = zero.map_err(|error| Error::system("counting CPUs", error))?;
            self.limits.set(*slot, zero, 0).map_err(read_failed)?;
        }
        for bit in bits {
            let zero = vec![Raw(Count::default()); cpus];
            let zero = aya::maps::PerCpuValues::try_from(zero);
            let zero = zero.map_err(|error| Error::system("counting CPUs", error))?;
            self.hits.set(*bit, zero, 0).map_err(read_failed)?;
        }
        Ok(())
    }

    fn forget_slots(&self, slots: &[u32]) {
        if !slots.is_empty() {
            self.sets.forget_all(|key| slots.contains(&key.slot()));
        }
    }

    /// One source, where it is in the table.
    #[must_use]
    pub fn source(&self, key: &SourceKey) -> Option<Source> {
        self.sets.source(key)
    }

    /// The source in the entry with this number, if it is this one.
    #[must_use]
    pub fn source_in(&self, number: usize, key: &SourceKey) -> Option<Source> {
        self.sets.source_in(number, key)
    }

    /// Changes the bucket in the entry with this number, if it is this source's; see [`Charge`]. `epoch` is the present
    /// one. Returns whether it did.
    pub fn charge(
        &self,
        number: usize,
        key: &SourceKey,
        epoch: u32,
        change: impl FnMut(&Source) -> Charge,
    ) -> bool {
        self.sets.charge(number, key, epoch, change)
    }

    /// Forgets a source. Returns whether it was there.
    #[must_use]
    pub fn forget(&self, key: &SourceKey) -> bool {
        self.sets.forget(key)
    }

    /// Forgets all sources. Returns how many there were.
    #[must_use]
    pub fn forget_all(&self) -> u64 {
        self.sets.forget_all(|_| true)
    }

    /// Entries that the limit in each slot holds.
    #[must_use]
    pub fn held(&self) -> [u64; SLOTS as usize] {
        let mut held = [0; SLOTS as usize];
        for tag in self.sets.counted() {
            if let Some(held) = held.get_mut(tag.slot() as usize) {
                *held += u64::from(tag.entries());
            }
        }
        held
    }

    /// All sources. Of a table that changes meanwhile it shows each entry as it was at some moment.
    pub fn sources(&self) -> impl Iterator<Item = Entry> {
        self.sets.sources()
    }

    /// The same in one loop, each with the number of its entry: below [`Self::capacity`].
    pub fn look_through(&self, look: impl FnMut(usize, &SourceKey, &Source)) {
        self.sets.look_through(look);
    }
}

fn sum(counters: &[Counters]) -> Counters {
    counters
        .iter()
        .fold(Counters::default(), |sum, one| Counters {
            by_reason: std::array::from_fn(|i| sum.by_reason[i] + one.by_reason[i]),
            sources_added: sum.sources_added.wrapping_add(one.sources_added),
            sources_removed: sum.sources_removed.wrapping_add(one.sources_removed),
        })
}

/// Writes the first content of a new table: its seed, and the buckets of the new-source limit, which are full at
/// `full_at` (nanoseconds). A word of 0 would be no such bucket: it may be a time in the future.
pub(in crate::kernel) fn fill_table(ebpf: &mut aya::Ebpf, seed: Seed, full_at: u64) -> Result<()> {
    let mut table: Array<_, Raw<Table>> = named(ebpf, "TABLE")?.try_into().map_err(read_failed)?;
    let first = Table {
        seed,
        new_sources: bucket::time(bucket::ticks(full_at)),
        ..Table::default()
    };
    table.set(0, Raw(first), 0).map_err(read_failed)?;
    let mut shares: Array<_, Raw<Share>> =
        named(ebpf, "SHARES")?.try_into().map_err(read_failed)?;
    for slot in 0..SLOTS {
        let share = Share {
            held: 0,
            new_sources: bucket::time(bucket::ticks(full_at)),
        };
        shares.set(slot, Raw(share), 0).map_err(read_failed)?;
    }
    Ok(())
}

/// Writes the entries that the limit in each slot holds.
pub(in crate::kernel) fn write_held(ebpf: &mut aya::Ebpf, held: &[u64]) -> Result<()> {
    let mut shares: Array<_, Raw<Share>> =
        named(ebpf, "SHARES")?.try_into().map_err(read_failed)?;
    for (slot, held) in (0..SLOTS).zip(held) {
        let Raw(share) = shares.get(&slot, 0).map_err(read_failed)?;
        let share = Share {
            held: *held,
            ..share
        };
        shares.set(slot, Raw(share), 0).map_err(read_failed)?;
    }
    Ok(())
}

fn named<'a>(ebpf: &'a mut aya::Ebpf, name: &str) -> Result<&'a mut Map> {
    ebpf.map_mut(name).ok_or_else(|| {
        read_failed(MapError::InvalidName {
            name: name.to_owned(),
        })
    })
}

/// The seed of the table that is pinned in `folder`.
pub(in crate::kernel) fn seed_of(folder: &Dir) -> Result<Seed> {
    read_seed(Map::Array(open_map(folder, "TABLE")?))
}

/// The map that is pinned as `name` in `folder`.
pub(in crate::kernel) fn open_map(folder: &Dir, name: &str) -> Result<MapData> {
    let pin = folder.pin(name);
    let pin = pin.map_err(|error| Error::path("opening", folder.path().join(name), error))?;
    MapData::from_pin(pin.path()).map_err(read_failed)
}

/// The array of the programs that packets go on to.
pub(in crate::kernel) const fn next_of(frags: bool) -> &'static str {
    if frags { "NEXT_FRAGS" } else { "NEXT" }
}

/// Id of the program at `index` of the pinned program array `name`.
pub(in crate::kernel) fn next_id(folder: &Dir, name: &str, index: u32) -> Result<Option<u32>> {
    // Read as numbers: to read it, the kernel gives the id of the program.
    let array: Array<_, u32> = Map::Array(open_map(folder, name)?)
        .try_into()
        .map_err(read_failed)?;
    match array.get(&index, 0) {
        Ok(id) => Ok(Some(id)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(read_failed(error)),
    }
}

/// Empties `index` of the pinned program array `name`, if a program is there.
pub(in crate::kernel) fn clear_next(folder: &Dir, name: &str, index: u32) -> Result<()> {
    let mut array: ProgramArray<_> = Map::ProgramArray(open_map(folder, name)?)
        .try_into()
        .map_err(read_failed)?;
    // Where it is empty the kernel says so.
    let _ = array.clear_index(&index);
    Ok(())
}

fn read_seed(map: Map) -> Result<Seed> {
    let table: Array<_, Raw<Table>> = map.try_into().map_err(read_failed)?;
    let Raw(table) = table.get(&0, 0).map_err(read_failed)?;
    Ok(table.seed)
}
