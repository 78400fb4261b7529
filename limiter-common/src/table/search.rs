//! The table of sources: sets of a few entries, which a keyed hash spreads the sources over.
//!
//! A source that finds no room in its own set goes to one of those that follow at a distance of its
//! own, and its set counts how many of its sources are elsewhere: as long as there are none, one look
//! tells that a source is not there. An entry with a full bucket is free to be taken, since
//! a bucket that does not exist is a full one: there is no list to keep, and nothing to evict.
//!
//! Only new sources lock anything: a source is brought in under the lock of its set, so that two CPUs
//! make no two buckets of it.

use super::{
    Displaced, Home, SETS_OF_SOURCE, WAYS,
    entry::{
        ADDRESS, ONE_PACKET, OVER, PASSED, Protocol, Shared, TAT, counter, is_out_of_reach,
        is_taken, is_wide, with_epoch,
    },
    key::Tag,
};
use crate::{
    abi::KEPT_FOR,
    arithmetic::bucket::{self, BUSY, FREE, REST},
};

/// A set that others work on at the same time.
pub trait SharedSet: Copy {
    /// The type of its entries.
    type Entry: Shared;
    /// The entry with this number, below [`WAYS`].
    fn entry(self, way: u32) -> Self::Entry;
}

/// A table that others work on at the same time.
pub trait SharedTable {
    /// The type of its sets.
    type Set: SharedSet;
    /// The set with this number; none if there is no such set.
    fn set(&self, number: u32) -> Option<Self::Set>;
    /// The sets of a source.
    fn home(&self, tag: &Tag) -> Home;
    /// The data of a set about its sources that are in other sets.
    fn displaced(&self, set: u32) -> Displaced;
    /// Counts one more such source, in the set at `place`. Returns whether it could be counted.
    fn displace(&self, set: u32, place: u32) -> bool;
    /// Counts one such source less.
    fn replace(&self, set: u32);
    /// Counts the second of two sources that a wide one takes the place of: [`Added::Replaced`] stands for one.
    fn second_replaced(&self) {}
    /// Locks the set for new sources, if it can be had.
    fn lock(&self, set: u32) -> bool;
    /// Unlocks it.
    fn unlock(&self, set: u32);
    /// Nanoseconds since the bucket of an entry with these words became full, at `now`; none if it is not full, and the
    /// greatest possible number if its limit has gone.
    fn full_for(&self, over: u64, word: u64, now: u64) -> Option<u64>;
    /// Sets that there are.
    fn sets(&self) -> u32;
    /// Counts the entries of one more source for its limit, if that has room for them.
    fn hold(&self, tag: &Tag) -> bool;
    /// Counts so many entries less for the limit in `slot`.
    fn release(&self, slot: u32, entries: u32);
    /// Counts the entries of a source that was not added less for its limit. A separate function if that is better.
    #[inline(always)]
    fn let_go(&self, tag: &Tag) {
        self.release(tag.slot(), tag.entries());
    }
    /// Whether the limit of the source has room for it.
    fn has_room(&self, tag: &Tag) -> bool;
    /// The set at which a sweep begins, below [`Self::sets`]: each time [`SWEPT`] further.
    fn hand(&self) -> u32;
    /// Counts a source that has lost its entry to a sweep.
    fn cleared(&self) {}
    /// [`clear`], as a separate function if that is better.
    #[inline(always)]
    fn clear(&self, number: u32, now: u64) {
        clear(self, number, now);
    }
    /// Whether the source is in one of its sets.
    #[inline(always)]
    fn has(&self, tag: &Tag, home: &Home) -> bool {
        find_far(self, tag, home).is_some()
    }
    /// [`settle`], as a separate function if that is better.
    #[inline(always)]
    fn settle(&self, set: u32, way: u32, new: &New<'_>, place: u32) -> Option<Added> {
        settle(self, set, way, new, place, new.tag.is_wide())
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
    /// The epoch that the word was written in.
    pub epoch: u32,
    /// The time, in nanoseconds.
    pub now: u64,
}

/// The result of adding a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is in, and charged, and its packet counted.
    Done,
    /// The source is in, and charged, and its packet counted, in the entry of another source, or of two.
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
            return Some(entry);
        }
        way += step;
    }
    None
}

/// The entry of a source in any of its sets, with the number of that set.
#[inline(always)]
pub fn find_far<T: SharedTable + ?Sized>(
    table: &T,
    tag: &Tag,
    home: &Home,
) -> Option<(u32, EntryOf<T>)> {
    let mut places = home.places();
    let displaced = table.displaced(home.set);
    for place in 0..SETS_OF_SOURCE {
        if !displaced.reach(place) {
            break;
        }
        let number = places.set(place);
        if let Some(set) = table.set(number)
            && let Some(entry) = find_in(set, tag, tag.is_wide())
        {
            return Some((number, entry));
        }
    }
    None
}

/// Brings a source in, unless it is there.
#[inline(always)]
pub fn add<T: SharedTable + ?Sized>(table: &T, new: &New<'_>) -> Added {
    // Before it takes an entry: a limit never holds more than it is counted for.
    if !table.hold(new.tag) {
        return Added::NoRoom;
    }
    let added = add_held(table, new);
    if !matches!(added, Added::Done | Added::Replaced) {
        table.let_go(new.tag);
    }
    added
}

#[inline(always)]
fn add_held<T: SharedTable + ?Sized>(table: &T, new: &New<'_>) -> Added {
    let home = table.home(new.tag);
    if !table.lock(home.set) {
        return Added::Raced;
    }
    let added = add_locked(table, new, &home);
    table.unlock(home.set);
    added
}

/// Whether the limit of a new source has room for it. If not, entries that may be taken are cleared first: they count
/// until then.
#[inline(always)]
pub fn make_room<T: SharedTable + ?Sized>(table: &T, tag: &Tag, now: u64) -> bool {
    if table.has_room(tag) {
        return true;
    }
    sweep(table, now);
    table.has_room(tag)
}

/// Sets that a sweep looks at: of a limit that has one 66th of the table for itself, the least with 33 limits that
/// tell sources apart, they hold four entries.
pub const SWEPT: u32 = 128;

/// Clears the entries that may be taken, in the next [`SWEPT`] sets.
#[inline(always)]
pub fn sweep<T: SharedTable + ?Sized>(table: &T, now: u64) {
    let first = table.hand();
    for step in 0..SWEPT {
        table.clear(first + step, now);
    }
}

/// Clears the entries of a set that may be taken. The set is counted from `number`, past the last one from the first
/// again: here, because the verifier would follow a sweep that turns round at each of its sets.
#[inline(always)]
pub fn clear<T: SharedTable + ?Sized>(table: &T, number: u32, now: u64) {
    let number = number.checked_rem(table.sets()).unwrap_or(0);
    let Some(set) = table.set(number) else {
        return;
    };
    for way in 0..WAYS {
        clear_entry(table, set.entry(way), number, way, now);
    }
}

#[inline(always)]
fn clear_entry<T: SharedTable + ?Sized>(
    table: &T,
    entry: EntryOf<T>,
    number: u32,
    way: u32,
    now: u64,
) {
    if entry.load(TAT) == FREE {
        return;
    }
    let Some(word) = take(table, entry, BUSY, now) else {
        return;
    };
    let was_wide = way.is_multiple_of(2) && is_wide(entry.load(OVER));
    let former = home_of_former(table, entry, word, number, was_wide);
    if was_wide {
        entry.next().swap(TAT, REST, FREE);
    }
    entry.swap(TAT, BUSY, FREE);
    leave(table, former, number);
    if bucket::is_time(word) {
        table.cleared();
    }
}

/// Entries that a new source tries.
const PROBES: u32 = SETS_OF_SOURCE * WAYS;

#[inline(always)]
fn add_locked<T: SharedTable + ?Sized>(table: &T, new: &New<'_>, home: &Home) -> Added {
    if table.has(new.tag, home) {
        return Added::Raced;
    }
    let mut places = home.places();
    let mut number = home.set;
    // One loop over entries instead of two nested ones: the verifier follows it once.
    for index in 0..PROBES {
        let (place, way) = (index / WAYS, index % WAYS);
        if way == 0 {
            number = places.set(place);
        } else if new.tag.is_wide() {
            continue;
        }
        if let Some(added) = table.settle(number, way, new, place) {
            return added;
        }
    }
    Added::NoRoom
}

/// Puts the source into an entry of the set with this number, if that may be taken. `wide` says whether it
/// takes two.
#[inline(always)]
pub fn settle<T: SharedTable + ?Sized>(
    table: &T,
    number: u32,
    way: u32,
    new: &New<'_>,
    place: u32,
    wide: bool,
) -> Option<Added> {
    let entry = table.set(number)?.entry(way);
    let word = take(table, entry, BUSY, new.now)?;
    // Before its key is there: a set never counts less than there are.
    let home = table.home(new.tag).set;
    if number != home && !table.displace(home, place) {
        entry.swap(TAT, BUSY, word);
        return None;
    }
    // The key of an entry that was cleared is still there, and no second half of it.
    let was_wide = word != FREE && way.is_multiple_of(2) && is_wide(entry.load(OVER));
    let mut was_taken = bucket::is_time(word);
    if wide {
        let second = entry.next();
        if !was_wide {
            let Some(word_of_second) = take(table, second, REST, new.now) else {
                leave(table, home, number);
                entry.swap(TAT, BUSY, word);
                return None;
            };
            let former = home_of_former(table, second, word_of_second, number, false);
            second.store(PASSED, 0);
            second.store(OVER, 0);
            second.store(ADDRESS, new.tag.rest);
            leave(table, former, number);
            if bucket::is_time(word_of_second) {
                if was_taken {
                    table.second_replaced();
                }
                was_taken = true;
            }
        }
    }
    let former = home_of_former(table, entry, word, number, was_wide);
    if wide {
        entry.next().store(ADDRESS, new.tag.rest);
    } else if was_wide {
        entry.next().swap(TAT, REST, FREE);
    }
    entry.store(ADDRESS, new.tag.address);
    entry.store(PASSED, new.tag.port() | ONE_PACKET);
    entry.store(OVER, with_epoch(new.tag.limit(), new.epoch));
    entry.swap(TAT, BUSY, new.word);
    leave(table, former, number);
    Some(if was_taken {
        Added::Replaced
    } else {
        Added::Done
    })
}

/// Counts the former source of an entry that was taken no longer for its limit. Returns the source's set, or `number`,
/// the entry's set, if there was no source.
#[inline(always)]
fn home_of_former<T: SharedTable + ?Sized>(
    table: &T,
    entry: EntryOf<T>,
    word: u64,
    number: u32,
    was_wide: bool,
) -> u32 {
    if word == FREE {
        return number;
    }
    let tag = entry.tag();
    table.release(tag.slot(), if was_wide { 2 } else { 1 });
    table.home(&tag).set
}

/// Accounts for a source that has left a set, once its key is gone: a set never counts less than there are.
#[inline(always)]
fn leave<T: SharedTable + ?Sized>(table: &T, home: u32, number: u32) {
    if home != number {
        table.replace(home);
    }
}

/// Takes an entry that may be taken, and replaces its word with `mark`. Returns the former word.
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

/// Whether the entry with this word has no source, or its bucket is full and not kept for its source.
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
        Some(full_for) => full_for >= KEPT_FOR || counter(entry.load(PASSED)) + counter(over) <= 1,
        None => false,
    }
}
