//! The table of sources in this process's memory: the same that the program has in maps, with the same
//! functions, and nobody else at work on it.

use std::cell::Cell;

use limiter_common::{
    entry::{ONE_PACKET, OVER, PASSED, Shared, slot_in},
    key::{SLOTS, Tag},
    layout::Config,
    limit::Terms,
    rules::Limit,
    share,
    table::{self, Added, Displaced, Home, New, SWEPT, Seed, SharedSet, SharedTable, WAYS},
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
    /// By slot. Only limits that there are, which never change.
    limits: [Option<Limit>; SLOTS as usize],
    /// Entries that limits share; 0: there is one limit, which has them all.
    room: u32,
    /// Entries that each limit holds, by slot.
    held: [Cell<u64>; SLOTS as usize],
    /// The set at which a sweep begins.
    hand: Cell<u32>,
}

impl Memory {
    /// An empty one.
    pub fn new(config: &Config) -> Self {
        let mut limits = [None; SLOTS as usize];
        for limit in &config.limits[..config.limits_length as usize] {
            limits[limit.slot as usize] = Some(*limit);
        }
        Self {
            sets: (0..config.sets).map(|_| Line::default()).collect(),
            displaced: vec![Cell::new(0); config.sets as usize],
            seed: config.seed,
            limits,
            room: config.room,
            held: std::array::from_fn(|_| Cell::new(0)),
            hand: Cell::new(0),
        }
    }

    /// Whether the source's limit has room for it at `now` (nanoseconds), if need be after a sweep.
    pub fn make_room(&self, tag: &Tag, now: u64) -> bool {
        table::make_room(&View(self), tag, now)
    }

    fn limit(&self, slot: u32) -> Option<&Limit> {
        self.limits.get(slot as usize)?.as_ref()
    }

    fn held(&self, slot: u32) -> u64 {
        self.held.get(slot as usize).map_or(0, Cell::get)
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
        let terms: Option<Terms> = self.0.limit(slot_in(over)).map(|limit| limit.terms);
        match terms {
            Some(terms) => terms.full_for(word, now),
            None => Some(u64::MAX),
        }
    }

    fn sets(&self) -> u32 {
        u32::try_from(self.0.sets.len()).unwrap_or(u32::MAX)
    }

    fn has_room(&self, tag: &Tag) -> bool {
        let (slot, entries) = (tag.slot(), tag.entries());
        let Some(limit) = self.0.limit(slot) else {
            return false;
        };
        let wanted = self.0.held(slot) + u64::from(entries);
        if self.0.room == 0 || share::is_within(limit.share.into(), wanted) {
            return true;
        }
        let others = self.0.limits.iter().flatten();
        let others = others.filter(|other| other.slot != slot);
        let kept: u64 = others
            .map(|other| share::kept(self.0.held(other.slot), other.share.into()))
            .sum();
        limit.borrows != 0 && wanted + kept <= self.0.room.into()
    }

    fn hold(&self, tag: &Tag) -> bool {
        let has_room = self.has_room(tag);
        if let (true, Some(held)) = (has_room, self.0.held.get(tag.slot() as usize)) {
            held.set(held.get() + u64::from(tag.entries()));
        }
        has_room
    }

    fn release(&self, slot: u32, entries: u32) {
        if let Some(held) = self.0.held.get(slot as usize) {
            held.set(held.get() - u64::from(entries));
        }
    }

    fn hand(&self) -> u32 {
        let hand = self.0.hand.get();
        self.0.hand.set(hand.wrapping_add(SWEPT));
        hand % self.sets()
    }
}
