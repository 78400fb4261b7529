//! The table as one CPU of the model sees it: each access goes over its bus.

use std::cell::Cell;

use limiter_common::table::{
    Home, OVERFLOW_WIDTH, SharedTable,
    entry::{ONE_PACKET, Shared, TAT, epoch_in, slot_in},
    key::SourceKey,
    word::Word,
};

use crate::{
    explore::Bus,
    memory::Access,
    world::{CHANGE, GONE, QUOTA, SEED, WHOLE, WORDS, World, place},
};

/// The table, as a program of one epoch sees it.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    pub bus: &'a dyn Bus,
    pub world: World,
    pub epoch: u32,
    /// Number of the owner of the bucket that this CPU changed last; see [`World::number_of`].
    pub changed: &'a Cell<u64>,
    /// Number of sources that this CPU has removed.
    pub removed: &'a Cell<u64>,
}

#[derive(Clone, Copy)]
pub struct BusEntry<'a> {
    bus: &'a dyn Bus,
    changed: &'a Cell<u64>,
    first: usize,
}

impl BusEntry<'_> {
    pub fn count(self, word: usize) {
        self.add(word, ONE_PACKET);
    }
}

/// A word of the model's memory.
#[derive(Clone, Copy)]
pub struct BusWord<'a> {
    bus: &'a dyn Bus,
    place: usize,
    /// Gets the number of the owner of a changed TAT.
    changed: Option<&'a Cell<u64>>,
}

impl Word for BusWord<'_> {
    fn load(self) -> u64 {
        self.bus.access(self.place, Access::Load)
    }
    fn swap(self, expected: u64, new: u64) -> bool {
        let found = self.bus.access(self.place, Access::Swap { expected, new });
        if let (true, Some(changed)) = (found != 0, self.changed) {
            changed.set(found - 1);
        }
        found != 0
    }
    fn store(self, value: u64) {
        self.bus.access(self.place, Access::Store(value));
    }
    fn add(self, amount: u64) {
        self.bus.access(self.place, Access::Add(amount));
    }
}

impl<'a> Shared for BusEntry<'a> {
    type Word = BusWord<'a>;

    fn word(self, index: usize) -> BusWord<'a> {
        BusWord {
            bus: self.bus,
            place: self.first + index,
            changed: (index == TAT).then_some(self.changed),
        }
    }
    fn next(self) -> Self {
        Self {
            first: self.first | WORDS,
            ..self
        }
    }
}

impl<'a> Table<'a> {
    fn word(&self, place: usize) -> BusWord<'a> {
        BusWord {
            bus: self.bus,
            place,
            changed: None,
        }
    }

    fn count_held(&self, amount: u64) {
        if self.world.is_counted {
            self.word(self.world.held()).add(amount);
        }
    }

    /// Converts a TAT of `epoch` to the quota of this program; none if `epoch` is later.
    pub fn on_present(&self, epoch: u32, word: u64) -> Option<u64> {
        let behind = self.epoch.wrapping_sub(epoch);
        (behind.cast_signed() >= 0).then(|| word + CHANGE * u64::from(behind))
    }
}

impl<'a> SharedTable for Table<'a> {
    type Entry = BusEntry<'a>;
    /// A CPU that tries again is like one that comes later.
    const LOCK_TRIES: u32 = 1;
    /// The program makes more attempts, and gives up in the same way.
    const COUNT_TRIES: u32 = 2;

    fn set(&self, number: u32) -> Option<BusEntry<'a>> {
        (number < self.world.sets).then_some(BusEntry {
            bus: self.bus,
            changed: self.changed,
            first: place(number, 0),
        })
    }
    fn home(&self, tag: &SourceKey) -> Home {
        SEED.home(tag, WHOLE)
    }
    fn overflow_word(&self, set: u32) -> Option<(BusWord<'a>, u32)> {
        Some((self.word(self.world.counts()), set * OVERFLOW_WIDTH))
    }
    fn lock_word(&self, set: u32) -> Option<BusWord<'a>> {
        Some(self.word(self.world.lock(set)))
    }
    fn sets(&self) -> u32 {
        self.world.sets
    }
    /// Every limit has room.
    fn reserve(&self, tag: &SourceKey) -> bool {
        self.count_held(tag.entries().into());
        true
    }
    fn release(&self, _: u32, entries: u32) {
        self.count_held(u64::from(entries).wrapping_neg());
    }
    fn has_room(&self, _: &SourceKey) -> bool {
        true
    }
    fn hand(&self) -> u32 {
        0
    }
    fn count_removed(&self) {
        self.removed.set(self.removed.get() + 1);
    }
    fn full_for(&self, over: u64, word: u64, now: u64) -> Option<u64> {
        if slot_in(over) == GONE {
            return Some(u64::MAX);
        }
        let word = self.on_present(epoch_in(over, self.epoch), word)?;
        QUOTA.full_for(word, now)
    }
    fn is_quiet(&self, over: u64, word: u64, packets: u64, now: u64) -> bool {
        let on_present = epoch_in(over, self.epoch) == self.epoch;
        slot_in(over) != GONE && on_present && QUOTA.is_quiet(word, packets, now)
    }
}
