//! Replaces a program in the kernel over the same maps, as `limiter reload` does, but without an interface, and with
//! the test's own clock.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use aya::maps::{Array, Map, MapData, PerCpuArray, PerCpuValues};
use limiter_common::{
    abi::{
        CLOCK_PACKET, Share, Source, Table,
        rules::{BUDGETS, ROWS, row},
    },
    arithmetic::{bucket, quota::Quota, rescale},
    table::{entry::epoch_in, key::SourceKey},
};
use limiter_config::{Limit, Settings, slot::Slot};
use limiter_kernel::{
    program::{
        maps::MAPS,
        object,
        object::{ListMaps, Maps, Program},
        raw::Raw,
    },
    state::record::Record,
    sys::{bpffs, folder::Dir},
};

use crate::engine::{Kernel, is_tc};

/// A program, and its successors over the same maps.
pub struct Generations {
    /// The current program.
    pub kernel: Kernel,
    /// The record that the program was made from.
    pub record: Record,
    slots: Vec<(Limit, Slot)>,
    folder: Folder,
    /// Time at which uncharged buckets of the new-source limit were full.
    full_at: Cell<u64>,
}

/// Folder of the pinned maps; it is removed on drop.
#[derive(Debug)]
struct Folder(PathBuf, Dir);

impl Folder {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        bpffs::ensure().unwrap();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("limiter-test-generations-{}-{number}", std::process::id());
        let folder = Path::new(bpffs::BPFFS).join(name);
        fs::create_dir(&folder).unwrap();
        let opened = Dir::walk(&folder).unwrap().unwrap();
        Self(folder, opened)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The thread may be panicking already.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Generations {
    /// The first program, with frames of at most `frame_max` bytes.
    pub fn new(settings: &Settings, frame_max: u64) -> Self {
        let mut record = Record {
            settings: settings.clone(),
            frame_max,
            frags: true,
            tc: is_tc(settings),
            ..Record::default()
        };
        record.take_slots();
        let program = load(&record, Maps::New);
        let folder = Folder::new();
        program.pin_maps(&MAPS, &folder.1).unwrap();
        Self {
            kernel: Kernel::over(program),
            slots: record.with_slots(),
            record,
            folder,
            full_at: Cell::new(0),
        }
    }

    fn table(&self) -> Array<MapData, Raw<Table>> {
        let map = MapData::from_pin(self.folder.0.join("TABLE")).unwrap();
        Map::Array(map).try_into().unwrap()
    }

    /// The TAT of the new-source limit's bucket.
    pub fn new_sources(&self) -> u64 {
        let Raw(table) = self.table().get(&0, 0).unwrap();
        table.new_sources[0]
    }

    /// Sets the time at which the new-source limit's buckets are full to `tick`.
    pub fn fill_new_sources(&self, tick: u64) {
        let Raw(table) = self.table().get(&0, 0).unwrap();
        let filled = Table {
            new_sources: [bucket::time(tick); BUDGETS as usize],
            ..table
        };
        self.table().set(0, Raw(filled), 0).unwrap();
        self.full_at.set(tick);
        self.fill_own(0..ROWS);
    }

    /// Resets the new-source buckets of the limits in these slots.
    fn fill_own(&self, slots: impl IntoIterator<Item = u32>) {
        let map = MapData::from_pin(self.folder.0.join("SHARES")).unwrap();
        let mut shares: Array<_, Raw<Share>> = Map::Array(map).try_into().unwrap();
        let map = MapData::from_pin(self.folder.0.join("LEASES")).unwrap();
        let mut leases: PerCpuArray<_, [u64; 3]> = Map::PerCpuArray(map).try_into().unwrap();
        let cpus = aya::util::nr_cpus().unwrap();
        for slot in slots {
            let Raw(share) = shares.get(&slot, 0).unwrap();
            let filled = Share {
                new_sources: bucket::time(self.full_at.get()),
                ..share
            };
            shares.set(slot, Raw(filled), 0).unwrap();
            let none = PerCpuValues::try_from(vec![[0; 3]; cpus]).unwrap();
            leases.set(slot, none, 0).unwrap();
        }
    }

    /// Forgets the new sources that were refused, also those of the limits that stay.
    fn forget_refused(&self) {
        let map = MapData::from_pin(self.folder.0.join("REFUSED")).unwrap();
        let mut refused: Array<_, [u32; 16]> = Map::Array(map).try_into().unwrap();
        for line in 0..refused.len() {
            refused.set(line, [0; 16], 0).unwrap();
        }
    }

    /// Replaces the program from `now` on.
    pub fn change(&mut self, settings: &Settings, now: u64) {
        self.change_unseen(settings, now);
        let mut program = load(&self.record, Maps::Pinned(&self.folder.1));
        // There is no race, because nothing else changes the counted entries.
        program.share_out(&self.kernel.tables.sets.held()).unwrap();
        self.kernel = Kernel::over(program);
    }

    /// Changes the settings without loading a program. Another change must follow before any packet.
    pub fn change_unseen(&mut self, settings: &Settings, now: u64) {
        let (record, taken) = {
            let frame_max = self.record.frame_max;
            self.record
                .changed(settings.clone(), None, frame_max, now)
                .unwrap()
        };
        let tables = &mut self.kernel.tables;
        let epochs = record.limits.iter().map(|slot| (slot.number, slot.epoch));
        tables.prepare(&taken.slots, &taken.bits, epochs).unwrap();
        let (left, turned) = self.record.left_and_turned(&record);
        tables.clean_up(&left, &turned);
        if !taken.slots.is_empty() {
            self.forget_refused();
        }
        let rows = |slot: u32| (0..BUDGETS).map(move |budget| row(slot, budget));
        self.fill_own(taken.slots.into_iter().flat_map(rows));
        self.slots = record.with_slots();
        self.record = record;
    }

    /// The shift of each limit's windows.
    pub fn phases(&self) -> BTreeMap<String, u64> {
        let slots = self.record.limits.iter();
        slots.map(|slot| (slot.name.clone(), slot.phase)).collect()
    }

    /// The limit of this name, with its slot.
    pub fn limit(&self, name: &str) -> &(Limit, Slot) {
        let mut slots = self.slots.iter();
        slots.find(|(limit, _)| limit.name == name).unwrap()
    }

    /// A bucket of the limit in `slot`, with its TAT on the present quota.
    pub fn bucket(&self, slot: &Slot, key: &SourceKey) -> Option<Source> {
        let mut source = self.kernel.tables.sets.source(key)?;
        let behind = slot.epoch - epoch_in(source.over, slot.epoch);
        if behind > 0 {
            let past = &slot.past;
            let known = u32::try_from(past.len()).unwrap();
            let generation = |index: u32| past.get(index as usize);
            source.tat = rescale::carry_over(source.tat, behind, known, generation).unwrap();
        }
        Some(source)
    }

    /// The quota of a limit, as the program has them.
    pub fn quota(&self, limit: &Limit, slot: &Slot) -> Quota {
        let quota = limit.quota(self.record.frame_max).unwrap();
        quota.at_phase(slot.phase).in_kernel
    }
}

fn load(record: &Record, maps: Maps<'_>) -> Program {
    let mut config = record.config().unwrap();
    config.clock = CLOCK_PACKET;
    let prefixes = record.settings.lists.compile(&record.tiers);
    let lists = ListMaps::New(&prefixes);
    object::load(&config, maps, lists, true).unwrap()
}
