//! The table of sources: sets of a few entries, which a keyed hash spreads the sources over.
//!
//! A source that finds no room in its own set goes to one of those that follow at a distance of its
//! own, and its set counts how many of its sources are elsewhere: as long as there are none, one look
//! tells that a source is not there. An entry whose bucket is full again is free to be taken, since
//! a bucket that does not exist is a full one: there is no list to keep, and nothing to evict.
//!
//! Only new sources lock anything: a source is brought in under the lock of its set, so that two CPUs
//! make no two buckets of it.

use crate::bucket::{self, BUSY, FREE, REST};
use crate::entry::{
    ADDRESS, ONE_PACKET, OVER, PASSED, Protocol, Shared, TAT, figure, is_out_of_reach, is_taken,
    with_epoch,
};
use crate::key::Tag;
use crate::layout::KEPT_FOR;

/// Entries of a set: two cache lines.
pub const WAYS: u32 = 4;

/// Sets that a source may be in. Until 85 % of the entries are in use, one of tens of thousands of new
/// sources finds no room; between 90 and 95 % it is one of 25.
pub const SETS_OF_SOURCE: u32 = 16;

/// Sources of a set that may be in other ones: more than a byte counts are never in a table whose secret
/// nobody knows.
const DISPLACED_MAX: u64 = u8::MAX as u64;

/// The secret that says which set is whose: nobody who does not know it can fill one of them on
/// purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Seed(pub [u64; 4]);

impl Seed {
    /// One that is no secret: for tests, and where nobody sends on purpose. Digits of pi.
    pub const KNOWN: Self = Self::new([
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ]);

    /// From random bits.
    #[must_use]
    pub const fn new([a, b, c, d]: [u64; 4]) -> Self {
        // Odd: multiplying by them loses nothing.
        Self([a, b | 1, c | 1, d | 1])
    }

    /// The sets of a source, of a table of `sets`.
    #[must_use]
    #[inline(always)]
    pub const fn home(&self, tag: &Tag, sets: u32) -> Home {
        let [mask, first, second, third] = self.0;
        let rest = tag.rest.wrapping_mul(third);
        let mut mixed = (tag.address ^ mask).wrapping_mul(first).wrapping_add(rest);
        mixed ^= mixed >> 32;
        mixed = (mixed ^ tag.scope).wrapping_mul(second);
        // Without this turn one seed of some hundreds puts most networks in a row into few sets.
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(third);
        Home {
            set: scaled(mixed >> 32, sets),
            mixed,
            sets,
        }
    }
}

/// 32 bits, scaled to a number below `sets`.
#[inline(always)]
const fn scaled(bits: u64, sets: u32) -> u32 {
    ((bits * sets as u64) >> 32) as u32
}

/// Where a source belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its own set.
    pub set: u32,
    mixed: u64,
    sets: u32,
}

impl Home {
    /// From one of its sets to the next, its own the first. Odd, because the number of sets is mostly a power
    /// of two: with a step that divides it the same few would come again and again.
    #[inline(always)]
    const fn step(&self) -> u32 {
        // Other bits than those that chose the set.
        let bits = (self.mixed ^ (self.mixed >> 29)) & 0xffff_ffff;
        1 + 2 * scaled(bits, self.sets / 2)
    }

    /// All of them, its own the first. Some come again where the table is small.
    pub fn sets(&self) -> impl Iterator<Item = u32> {
        let (home, step) = (*self, self.step());
        let next = move |set: &u32| Some(home.after(*set, step));
        core::iter::successors(Some(self.set), next).take(SETS_OF_SOURCE as usize)
    }

    #[inline(always)]
    const fn after(&self, set: u32, step: u32) -> u32 {
        // Both are below 2^31.
        let next = set + step;
        if next >= self.sets {
            next - self.sets
        } else {
            next
        }
    }
}

/// A set that others work on at the same time.
pub trait SharedSet: Copy {
    /// What its entries are.
    type Entry: Shared;
    /// One of them, below [`WAYS`].
    fn entry(self, way: u32) -> Self::Entry;
    /// The same, where a search has found it.
    #[inline(always)]
    fn found(self, way: u32) -> Self::Entry {
        self.entry(way)
    }
}

/// A table that others work on at the same time.
pub trait SharedTable {
    /// What its sets are.
    type Set: SharedSet;
    /// One of them; nothing where there is no such.
    fn set(&self, number: u32) -> Option<Self::Set>;
    /// The sets of a source.
    fn home(&self, tag: &Tag) -> Home;
    /// How many sources of the set are in other ones; never less.
    fn displaced(&self, set: u32) -> u64;
    /// One more of them.
    fn displace(&self, set: u32);
    /// One less.
    fn replace(&self, set: u32);
    /// Counts the second of two sources that a wide one takes the place of: [`Added::Replaced`] stands for one.
    fn second_replaced(&self) {}
    /// Locks the set for new sources, if it can be had.
    fn lock(&self, set: u32) -> bool;
    /// Unlocks it.
    fn unlock(&self, set: u32);
    /// For how many nanoseconds the bucket of an entry with these words has been full at `now`; nothing
    /// where it is not, and for ever where its limit has gone.
    fn full_for(&self, over: u64, word: u64, now: u64) -> Option<u64>;
    /// Whether the source is in one of its sets.
    #[inline(always)]
    fn has(&self, tag: &Tag, home: &Home) -> bool {
        find_far(self, tag, home, true).is_some()
    }
    /// [`settle`], as a function of its own where that is better.
    #[inline(always)]
    fn settle(&self, set: u32, way: u32, new: &New<'_>, home: u32) -> Option<Added> {
        settle(self, set, way, new, home)
    }
}

type EntryOf<T> = <<T as SharedTable>::Set as SharedSet>::Entry;

/// A new source.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Its key.
    pub tag: &'a Tag,
    /// Its bucket's first word.
    pub word: u64,
    /// The epoch on whose terms that stands.
    pub epoch: u32,
    /// The time, in nanoseconds.
    pub now: u64,
}

/// What became of a new source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in, and charged, and its packet counted.
    Done,
    /// The same, in the entry of another one, or those of two.
    Replaced,
    /// Another CPU has brought the same source in, or is at work in its set.
    Raced,
    /// There is no room.
    NoRoom,
}

/// The entry of a source in one set. `wide` says whether its key takes two entries.
#[inline(always)]
pub fn find_in<S: SharedSet>(set: S, tag: &Tag, wide: bool) -> Option<S::Entry> {
    let step = if wide { 2 } else { 1 };
    let mut way = 0;
    while way < WAYS {
        let entry = set.entry(way);
        let is_its = if wide {
            entry.is_of(tag)
        } else {
            entry.begins_with(tag)
        };
        if is_its && is_taken(entry.load(TAT)) {
            return Some(set.found(way));
        }
        way += step;
    }
    None
}

/// The entry of a source in any of its sets, with the number of the set; its own set is one of them where
/// `home_too` says so.
#[inline(always)]
pub fn find_far<T: SharedTable + ?Sized>(
    table: &T,
    tag: &Tag,
    home: &Home,
    home_too: bool,
) -> Option<(u32, EntryOf<T>)> {
    let step = home.step();
    let mut number = home.set;
    for place in 0..SETS_OF_SOURCE {
        if place > 0 {
            number = home.after(number, step);
        } else if !home_too {
            continue;
        }
        if let Some(set) = table.set(number)
            && let Some(entry) = find_in(set, tag, tag.is_wide())
        {
            return Some((number, entry));
        }
        if place == 0 && table.displaced(home.set) == 0 {
            break;
        }
    }
    None
}

/// Brings a source in, unless it is there.
#[inline(always)]
pub fn add<T: SharedTable + ?Sized>(table: &T, new: &New<'_>) -> Added {
    let home = table.home(new.tag);
    if !table.lock(home.set) {
        return Added::Raced;
    }
    let added = add_locked(table, new, &home);
    table.unlock(home.set);
    added
}

#[inline(always)]
fn add_locked<T: SharedTable + ?Sized>(table: &T, new: &New<'_>, home: &Home) -> Added {
    if table.has(new.tag, home) {
        return Added::Raced;
    }
    let step = home.step();
    let mut number = home.set;
    // One more would be counted for the set that has the byte beside this one, and not be found.
    let sets = if table.displaced(home.set) < DISPLACED_MAX {
        SETS_OF_SOURCE
    } else {
        1
    };
    for probe in 0..SETS_OF_SOURCE * WAYS {
        let way = probe % WAYS;
        if probe >= sets * WAYS {
            break;
        }
        if way == 0 && probe > 0 {
            number = home.after(number, step);
        }
        if new.tag.is_wide() && way % 2 != 0 {
            continue;
        }
        if let Some(added) = table.settle(number, way, new, home.set) {
            return added;
        }
    }
    Added::NoRoom
}

/// Puts the source into an entry of the set with this number, if that may be taken.
#[inline(always)]
pub fn settle<T: SharedTable + ?Sized>(
    table: &T,
    number: u32,
    way: u32,
    new: &New<'_>,
    home: u32,
) -> Option<Added> {
    let entry = table.set(number)?.entry(way);
    let word = take(table, entry, BUSY, new.now)?;
    let was_wide = way % 2 == 0 && entry.tag().is_wide();
    let mut left = Left::of(table, entry, word, number);
    if new.tag.is_wide() {
        let rest = entry.next();
        if !was_wide {
            let Some(word) = take(table, rest, REST, new.now) else {
                entry.swap(TAT, BUSY, word);
                return None;
            };
            let other = Left::of(table, rest, word, number);
            rest.store(PASSED, 0);
            rest.store(OVER, 0);
            rest.store(ADDRESS, new.tag.rest);
            other.account(table);
            if other.was_taken {
                if left.was_taken {
                    table.second_replaced();
                }
                left.was_taken = true;
            }
        }
        rest.store(ADDRESS, new.tag.rest);
    } else if was_wide {
        entry.next().swap(TAT, REST, FREE);
    }
    entry.store(ADDRESS, new.tag.address);
    entry.store(PASSED, new.tag.port() | ONE_PACKET);
    entry.store(OVER, with_epoch(new.tag.limit(), new.epoch));
    if number != home {
        table.displace(home);
    }
    entry.swap(TAT, BUSY, new.word);
    left.account(table);
    Some(if left.was_taken {
        Added::Replaced
    } else {
        Added::Done
    })
}

/// Takes an entry that may be taken, and puts `mark` in the place of its word. Returns that.
#[inline(always)]
fn take<T: SharedTable + ?Sized>(table: &T, entry: EntryOf<T>, mark: u64, now: u64) -> Option<u64> {
    let word = entry.load(TAT);
    if is_out_of_reach(word) || !may_be_taken(table, entry, word, now) {
        return None;
    }
    if !entry.swap(TAT, word, mark) {
        return None;
    }
    // It may have changed hands before that. From now on it does not.
    if !may_be_taken(table, entry, word, now) {
        entry.swap(TAT, mark, word);
        return None;
    }
    Some(word)
}

/// Whether the entry with this word is nobody's, or its bucket is full and not kept for its source.
#[inline(always)]
fn may_be_taken<T: SharedTable + ?Sized>(
    table: &T,
    entry: EntryOf<T>,
    word: u64,
    now: u64,
) -> bool {
    if !bucket::is_time(word) {
        return true;
    }
    let over = entry.load(OVER);
    match table.full_for(over, word, now) {
        Some(full_for) => full_for >= KEPT_FOR || figure(entry.load(PASSED)) + figure(over) <= 1,
        None => false,
    }
}

/// What is to be put right once the key of an entry that was taken is gone.
#[derive(Clone, Copy)]
struct Left {
    /// The set that counts its source as displaced.
    displaced_from: Option<u32>,
    /// Whether it was somebody's.
    was_taken: bool,
}

impl Left {
    /// `number` is that of the set that the entry is in.
    #[inline(always)]
    fn of<T: SharedTable + ?Sized>(table: &T, entry: EntryOf<T>, word: u64, number: u32) -> Self {
        let home = if word == FREE {
            number
        } else {
            table.home(&entry.tag()).set
        };
        Self {
            displaced_from: (home != number).then_some(home),
            was_taken: bucket::is_time(word),
        }
    }

    /// Not before the key is gone: a set never counts less than there are.
    #[inline(always)]
    fn account<T: SharedTable + ?Sized>(&self, table: &T) {
        if let Some(set) = self.displaced_from {
            table.replace(set);
        }
    }
}
