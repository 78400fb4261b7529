//! The table of sources in this process's memory: the same that the program has in maps, with the same
//! functions, and nobody else at work on it.

use std::cell::Cell;

use limiter_common::{
    entry::{ONE_PACKET, OVER, PASSED, Shared, slot_in},
    key::{SLOTS, Tag},
    limit::Terms,
    table::{self, Added, Displaced, Home, New, Seed, SharedSet, SharedTable, WAYS},
    verdict::Reason,
};

const WORDS: usize = 4;

/// Words of one set.
type Line = [[Cell<u64>; WORDS]; WAYS as usize];

/// The table.
#[derive(Debug)]
pub struct Memory {
    sets: Vec<Line>,
    displaced: Vec<Cell<u8>>,
    seed: Seed,
    /// By slot: when a bucket is full. Only of limits that there are, which never change.
    terms: [Option<Terms>; SLOTS as usize],
}

impl Memory {
    /// An empty one.
    pub fn new(sets: u32, seed: Seed, terms: [Option<Terms>; SLOTS as usize]) -> Self {
        Self {
            sets: (0..sets).map(|_| Line::default()).collect(),
            displaced: vec![Cell::new(0); sets as usize],
            seed,
            terms,
        }
    }

    /// The entry of a source, wherever it is.
    pub fn find(&self, tag: &Tag) -> Option<Entry<'_>> {
        let view = View(self);
        table::find_far(&view, tag, &view.home(tag)).map(|(_, entry)| entry)
    }

    /// Brings a source in, whose bucket's first word is `word`, at `now` (nanoseconds).
    pub fn add(&self, tag: &Tag, word: u64, now: u64) -> Added {
        let new = New {
            tag,
            word,
            epoch: 0,
            now,
        };
        table::add(&View(self), &new)
    }
}

/// An entry.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    line: &'a Line,
    way: usize,
}

impl Entry<'_> {
    fn word(&self, word: usize) -> &Cell<u64> {
        &self.line[self.way][word]
    }

    /// Counts one packet of this source.
    pub fn count(self, reason: Reason) {
        if reason.passes() {
            self.add(PASSED, ONE_PACKET);
        }
        if !reason.passes() || reason.would_drop() {
            self.add(OVER, ONE_PACKET);
        }
    }

    /// Takes back that a packet of this source has passed.
    pub fn uncount(self) {
        self.add(PASSED, ONE_PACKET.wrapping_neg());
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
            way: (self.way + 1) % WAYS as usize,
            ..self
        }
    }
}

/// A set.
#[derive(Clone, Copy)]
struct Set<'a>(&'a Line);

impl<'a> SharedSet for Set<'a> {
    type Entry = Entry<'a>;

    fn entry(self, way: u32) -> Entry<'a> {
        Entry {
            line: self.0,
            way: (way % WAYS) as usize,
        }
    }
}

struct View<'a>(&'a Memory);

impl<'a> SharedTable for View<'a> {
    type Set = Set<'a>;

    fn set(&self, number: u32) -> Option<Set<'a>> {
        self.0.sets.get(number as usize).map(Set)
    }

    fn home(&self, tag: &Tag) -> Home {
        let sets = u32::try_from(self.0.sets.len()).unwrap_or(u32::MAX);
        self.0.seed.home(tag, sets)
    }

    fn displaced(&self, set: u32) -> Displaced {
        let byte = self.0.displaced.get(set as usize);
        Displaced(byte.map_or(0, Cell::get).into())
    }

    fn displace(&self, set: u32, place: u32) -> bool {
        let more = self.displaced(set).and_one(place);
        let more = more.and_then(|more| u8::try_from(more.0).ok());
        match (self.0.displaced.get(set as usize), more) {
            (Some(byte), Some(more)) => {
                byte.set(more);
                true
            }
            _ => false,
        }
    }

    fn replace(&self, set: u32) {
        if let Some(byte) = self.0.displaced.get(set as usize) {
            // There is one that is counted: the bits above stay as they are.
            byte.set(byte.get().wrapping_sub(1));
        }
    }

    fn lock(&self, _: u32) -> bool {
        true
    }

    fn unlock(&self, _: u32) {}

    fn full_for(&self, over: u64, word: u64, now: u64) -> Option<u64> {
        let terms = self.0.terms.get(slot_in(over) as usize);
        match terms.copied().flatten() {
            Some(terms) => terms.full_for(word, now),
            None => Some(u64::MAX),
        }
    }
}
