//! The table of sources in this process's memory. Layout and functions are the ones of the program's maps, without
//! concurrent access.

use std::cell::Cell;

use limiter_common::{
    abi::SETS_OF_WORD,
    policy::{has_room, kept},
    table::{
        Home, OVERFLOW_WIDTH, SWEPT, SharedTable, WAYS,
        entry::{Shared, slot_in},
        find,
        key::{SLOTS, SourceKey},
    },
};

use super::View;

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

/// The number of a source's entry, counted from 1; 0 if the source has none.
pub fn entry_number(view: &View<'_>, key: &SourceKey) -> u32 {
    let found = find(view, key, &view.home(key));
    found.map_or(0, |(set, entry)| set * WAYS + entry.way + 1)
}

/// The entry with this number; none for 0.
pub fn entry<'a>(view: &View<'a>, number: u32) -> Option<Entry<'a>> {
    let index = number.checked_sub(1)?;
    Some(view.set(index / WAYS)?.at(index % WAYS))
}

/// An entry of the table.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    line: &'a Line,
    way: u32,
}

impl<'a> Shared for Entry<'a> {
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

impl<'a> SharedTable for View<'a> {
    type Entry = Entry<'a>;

    fn set(&self, number: u32) -> Option<Entry<'a>> {
        let line = self.0.memory.sets.get(number as usize)?;
        Some(Entry { line, way: 0 })
    }

    fn home(&self, key: &SourceKey) -> Home {
        self.0.config.seed.home(key, self.sets())
    }

    fn overflow_word(&self, set: u32) -> Option<(&'a Cell<u64>, u32)> {
        let word = self.0.memory.overflow.get((set / SETS_OF_WORD) as usize)?;
        Some((word, set % SETS_OF_WORD * OVERFLOW_WIDTH))
    }

    fn lock_word(&self, _: u32) -> Option<&'a Cell<u64>> {
        Some(&self.0.memory.lock)
    }

    fn full_for(&self, over: u64, tat: u64, now: u64) -> Option<u64> {
        let limit = self.0.config.limit_in(slot_in(over));
        match limit {
            Some((_, limit)) => limit.quota.full_for(tat, now),
            None => Some(u64::MAX),
        }
    }

    fn is_quiet(&self, over: u64, tat: u64, packets: u64, now: u64) -> bool {
        let limit = self.0.config.limit_in(slot_in(over));
        limit.is_some_and(|(_, limit)| limit.quota.is_quiet(tat, packets, now))
    }

    fn sets(&self) -> u32 {
        self.0.config.sets
    }

    fn has_room(&self, key: &SourceKey) -> bool {
        let wanted = self.0.memory.held(key.slot()) + u64::from(key.entries());
        let held = |slot| self.0.memory.held(slot);
        let kept = |index, slot| kept(&self.0.config, held, index, slot);
        has_room(&self.0.config, kept, key.slot(), wanted)
    }

    fn reserve(&self, key: &SourceKey) -> bool {
        let has_room = self.has_room(key);
        if let (true, Some(held)) = (has_room, self.0.memory.held.get(key.slot() as usize)) {
            held.set(held.get() + u64::from(key.entries()));
        }
        has_room
    }

    fn release(&self, slot: u32, entries: u32) {
        if let Some(held) = self.0.memory.held.get(slot as usize) {
            held.set(held.get() - u64::from(entries));
        }
    }

    fn hand(&self) -> u32 {
        let hand = self.0.memory.hand.get();
        self.0.memory.hand.set(hand.wrapping_add(SWEPT));
        hand % self.sets()
    }
}
