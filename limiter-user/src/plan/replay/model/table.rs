//! The table of sources in this process's memory. Layout and functions are the ones of the program's maps, without
//! concurrent access.

use std::cell::Cell;

use limiter_common::{
    policy::{Constants, has_room, kept},
    table::{
        Home, Overflow, SWEPT, SharedSet, SharedTable, WAYS,
        entry::{Shared, slot_in},
        find,
        key::{SLOTS, Tag},
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
    overflow: Vec<Cell<u8>>,
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
            overflow: vec![Cell::new(0); sets as usize],
            held: std::array::from_fn(|_| Cell::new(0)),
            hand: Cell::new(0),
        }
    }

    fn held(&self, slot: u32) -> u64 {
        self.held.get(slot as usize).map_or(0, Cell::get)
    }
}

/// The number of a source's entry, counted from 1; 0 if the source has none.
pub fn entry_number(view: &View<'_>, tag: &Tag) -> u32 {
    let found = find(view, tag, &view.home(tag));
    found.map_or(0, |(set, entry)| set * WAYS + entry.way + 1)
}

/// The entry with this number; none for 0.
pub fn entry<'a>(view: &View<'a>, number: u32) -> Option<Entry<'a>> {
    let index = number.checked_sub(1)?;
    Some(view.set(index / WAYS)?.entry(index % WAYS))
}

/// An entry of the table.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    line: &'a Line,
    way: u32,
}

impl Entry<'_> {
    fn word(&self, word: usize) -> &Cell<u64> {
        &self.line[self.way as usize][word]
    }
}

impl Shared for Entry<'_> {
    fn load(self, word: usize) -> u64 {
        self.word(word).get()
    }

    fn swap(self, word: usize, expected: u64, new: u64) -> bool {
        let is_expected = self.load(word) == expected;
        if is_expected {
            self.store(word, new);
        }
        is_expected
    }

    fn store(self, word: usize, value: u64) {
        self.word(word).set(value);
    }

    fn add(self, word: usize, amount: u64) {
        self.store(word, self.load(word).wrapping_add(amount));
    }

    fn next(self) -> Self {
        Self {
            way: (self.way + 1) % WAYS,
            ..self
        }
    }
}

/// A set of the table.
#[derive(Clone, Copy)]
pub struct Set<'a>(&'a Line);

impl<'a> SharedSet for Set<'a> {
    type Entry = Entry<'a>;

    fn entry(self, way: u32) -> Entry<'a> {
        Entry {
            line: self.0,
            way: way % WAYS,
        }
    }
}

impl<'a> SharedTable for View<'a> {
    type Set = Set<'a>;

    fn set(&self, number: u32) -> Option<Set<'a>> {
        self.0.memory.sets.get(number as usize).map(Set)
    }

    fn home(&self, tag: &Tag) -> Home {
        self.0.config.seed.home(tag, self.sets())
    }

    fn overflow(&self, set: u32) -> Overflow {
        let byte = self.0.memory.overflow.get(set as usize);
        Overflow(byte.map_or(0, Cell::get).into())
    }

    fn count_overflow(&self, set: u32, distance: u32) -> bool {
        let more = self.overflow(set).with_one_more(distance);
        let more = more.and_then(|more| u8::try_from(more.0).ok());
        match (self.0.memory.overflow.get(set as usize), more) {
            (Some(byte), Some(more)) => {
                byte.set(more);
                true
            }
            _ => false,
        }
    }

    fn uncount_overflow(&self, set: u32) {
        if let Some(byte) = self.0.memory.overflow.get(set as usize) {
            // The count is at least 1: the bits above stay as they are.
            byte.set(byte.get().wrapping_sub(1));
        }
    }

    fn lock(&self, _: u32) -> bool {
        true
    }

    fn unlock(&self, _: u32) {}

    fn full_for(&self, over: u64, tat: u64, now: u64) -> Option<u64> {
        let limit = self
            .index_of(slot_in(over))
            .and_then(|index| self.limit(index));
        match limit {
            Some(limit) => limit.quota.full_for(tat, now),
            None => Some(u64::MAX),
        }
    }

    fn sets(&self) -> u32 {
        self.0.config.sets
    }

    fn has_room(&self, tag: &Tag) -> bool {
        let wanted = self.0.memory.held(tag.slot()) + u64::from(tag.entries());
        let held = |slot| self.0.memory.held(slot);
        let kept = |index, slot| kept(self, held, index, slot);
        has_room(self, kept, tag.slot(), wanted)
    }

    fn reserve(&self, tag: &Tag) -> bool {
        let has_room = self.has_room(tag);
        if let (true, Some(held)) = (has_room, self.0.memory.held.get(tag.slot() as usize)) {
            held.set(held.get() + u64::from(tag.entries()));
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
