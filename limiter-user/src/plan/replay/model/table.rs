//! The table of sources in this process's memory. Layout and functions are the ones of the program's maps, without
//! concurrent access.

use std::cell::Cell;

use limiter_common::{
    abi::SETS_OF_WORD,
    policy::{has_room, kept},
    table::{
        Home, OVERFLOW_WIDTH, SWEPT, SharedTable, WAYS,
        entry::{Shared, slot_in},
        key::{SLOTS, SourceKey},
    },
};

use super::Model;

const WORDS: usize = 4;

/// The words of one set.
type Line = [[Cell<u64>; WORDS]; WAYS as usize];

/// The table.
#[derive(Debug)]
pub struct Memory {
    sets: Vec<Line>,
    overflow: Vec<Cell<u64>>,
    /// The lock of all sets: this is a single CPU.
    lock: Cell<u64>,
    /// Entries of each limit, by slot.
    held: [Cell<u64>; SLOTS as usize],
    /// The set at which the next sweep begins.
    hand: Cell<u32>,
}

impl Memory {
    /// Creates an empty table.
    pub fn new(sets: u32) -> Self {
        Self {
            sets: (0..sets).map(|_| Line::default()).collect(),
            overflow: vec![Cell::new(0); sets.div_ceil(SETS_OF_WORD) as usize],
            lock: Cell::new(0),
            held: std::array::from_fn(|_| Cell::new(0)),
            hand: Cell::new(0),
        }
    }

    fn held(&self, slot: u32) -> u64 {
        self.held.get(slot as usize).map_or(0, Cell::get)
    }
}

/// An entry of the table.
#[derive(Clone, Copy)]
pub struct ModelEntry<'a> {
    line: &'a Line,
    pub way: u32,
}

impl<'a> Shared for ModelEntry<'a> {
    type Word = &'a Cell<u64>;

    fn word(self, index: usize) -> &'a Cell<u64> {
        &self.line[self.way as usize][index]
    }

    fn next(self) -> Self {
        Self {
            way: (self.way + 1) % WAYS,
            ..self
        }
    }
}

impl<'a> SharedTable for &'a Model {
    type Entry = ModelEntry<'a>;

    fn set(&self, number: u32) -> Option<ModelEntry<'a>> {
        let line = self.memory.sets.get(number as usize)?;
        Some(ModelEntry { line, way: 0 })
    }

    fn home(&self, key: &SourceKey) -> Home {
        self.config.seed.home(key, self.sets())
    }

    fn overflow_word(&self, set: u32) -> Option<(&'a Cell<u64>, u32)> {
        let word = self.memory.overflow.get((set / SETS_OF_WORD) as usize)?;
        Some((word, set % SETS_OF_WORD * OVERFLOW_WIDTH))
    }

    fn lock_word(&self, _: u32) -> Option<&'a Cell<u64>> {
        Some(&self.memory.lock)
    }

    fn full_for(&self, over: u64, tat: u64, now: u64) -> Option<u64> {
        let limit = self.config.limit_in(slot_in(over));
        match limit {
            Some((_, limit)) => limit.quota.full_for(tat, now),
            None => Some(u64::MAX),
        }
    }

    fn is_quiet(&self, over: u64, tat: u64, packets: u64, now: u64) -> bool {
        let limit = self.config.limit_in(slot_in(over));
        limit.is_some_and(|(_, limit)| limit.quota.is_quiet(tat, packets, now))
    }

    fn sets(&self) -> u32 {
        self.config.sets
    }

    fn has_room(&self, key: &SourceKey) -> bool {
        let wanted = self.memory.held(key.slot()) + u64::from(key.entries());
        let held = |slot| self.memory.held(slot);
        let kept = |index, slot| kept(&self.config, held, index, slot);
        has_room(&self.config, kept, key.slot(), wanted)
    }

    fn reserve(&self, key: &SourceKey) -> bool {
        let has_room = self.has_room(key);
        if let (true, Some(held)) = (has_room, self.memory.held.get(key.slot() as usize)) {
            held.set(held.get() + u64::from(key.entries()));
        }
        has_room
    }

    fn release(&self, slot: u32, entries: u32) {
        if let Some(held) = self.memory.held.get(slot as usize) {
            held.set(held.get() - u64::from(entries));
        }
    }

    fn hand(&self) -> u32 {
        let hand = self.memory.hand.get();
        self.memory.hand.set(hand.wrapping_add(SWEPT));
        hand % self.sets()
    }
}
