//! Finds, adds and clears the entries of sources.
//!
//! A source whose home set is full gets an entry in an overflow set: the next set with room in its probe sequence. The
//! home set counts its sources in overflow sets. If the count is 0, a search ends after the home set.
//!
//! A new source may take an entry with a full bucket: a missing bucket counts as full, so nothing is lost.
//!
//! A source with a second chance that finds no room may replace a quiet source of its limit, which has sent at most
//! [`FEW`] packets, the first of them a second ago. That source's bucket may not be full: it gains their tokens.
//!
//! A source is added under the lock of its home set, so that two CPUs do not make two buckets for it. Known sources
//! take no lock.

use core::hint::black_box;

use super::{
    Home, Overflow, SETS_OF_PAIR, WAYS,
    entry::{
        ADDRESS, ONE_PACKET, OVER, PASSED, Shared, TAT, counter, is_out_of_reach, is_taken,
        is_wide, slot_in, with_epoch,
    },
    key::SourceKey,
    layout::PAIRS_OF_SOURCE,
    word::Word,
};
use crate::{
    abi::KEPT_FOR,
    arithmetic::bucket::{self, BUSY, FREE, REST},
};

/// A table that several CPUs use at the same time.
pub trait SharedTable {
    /// The type of an entry.
    type Entry: Shared;
    /// Attempts to take a lock: enough for another CPU to add a source that finds room.
    const LOCK_TRIES: u32 = 64;
    /// Attempts to count a source in overflow sets: other CPUs change the word for other sets.
    const COUNT_TRIES: u32 = 4;
    /// The first entry of the set with this number; none if there is no such set.
    fn set(&self, number: u32) -> Option<Self::Entry>;
    /// The home set of a source.
    fn home(&self, key: &SourceKey) -> Home;
    /// The word with the [`Overflow`] byte of a set, and the shift of the byte.
    fn overflow_word(&self, set: u32) -> Option<(WordOf<Self>, u32)>;
    /// The lock of a set for new sources: 1 while a CPU holds it. Sets may share a lock.
    fn lock_word(&self, set: u32) -> Option<WordOf<Self>>;
    /// Nanoseconds since the bucket of an entry with these words became full, at `now`. None if it is not full;
    /// `u64::MAX` if its limit is gone.
    fn full_for(&self, over: u64, tat: u64, now: u64) -> Option<u64>;
    /// True if the bucket of an entry with these words, of a source with this many packets, is quiet: see
    /// [`crate::arithmetic::quota::Quota::is_quiet`].
    fn is_quiet(&self, over: u64, tat: u64, packets: u64, now: u64) -> bool;
    /// Number of sets.
    fn sets(&self) -> u32;
    /// Reserves the entries of a new source for its limit. Returns false if the limit has no room for them.
    fn reserve(&self, key: &SourceKey) -> bool;
    /// Subtracts `entries` from the entries that the limit in `slot` holds.
    fn release(&self, slot: u32, entries: u32);
    /// Undoes [`Self::reserve`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn release_source(&self, key: &SourceKey) {
        self.release(key.slot(), key.entries());
    }
    /// True if the limit of the source has room for its entries.
    fn has_room(&self, key: &SourceKey) -> bool;
    /// The set at which the next sweep begins, below [`Self::sets`]. Each call advances it by [`SWEPT`].
    fn hand(&self) -> u32;
    /// Counts a source that was removed.
    fn count_removed(&self) {}
    /// The count and reach of a set's sources in overflow sets.
    #[inline(always)]
    fn overflow(&self, set: u32) -> Overflow {
        self.overflow_word(set)
            .map_or(Overflow::default(), |(word, shift)| {
                Overflow::in_word(word.load(), shift)
            })
    }
    /// Adds a source at `distance` to the overflow of `set`. Returns false if the count is at its maximum.
    #[inline(always)]
    fn count_overflow(&self, set: u32, distance: u32) -> bool {
        let Some((word, shift)) = self.overflow_word(set) else {
            return false;
        };
        for _ in 0..Self::COUNT_TRIES {
            let before = word.load();
            let Some(more) = Overflow::in_word(before, shift).with_one_more(distance) else {
                return false;
            };
            if word.swap(before, more.put_into(before, shift)) {
                return true;
            }
        }
        false
    }
    /// Subtracts a source from the overflow of `set`. The count is at least 1, so the bits above it do not change.
    #[inline(always)]
    fn uncount_overflow(&self, set: u32) {
        if let Some((word, shift)) = self.overflow_word(set) {
            word.add(u64::MAX << shift);
        }
    }
    /// Tries to lock the set for new sources. Returns whether it did.
    #[inline(always)]
    fn lock(&self, set: u32) -> bool {
        let Some(word) = self.lock_word(set) else {
            return false;
        };
        for _ in 0..Self::LOCK_TRIES {
            if word.swap(0, 1) {
                return true;
            }
        }
        false
    }
    /// Unlocks the set, by compare-and-swap, which is a memory barrier.
    #[inline(always)]
    fn unlock(&self, set: u32) {
        if let Some(word) = self.lock_word(set) {
            word.swap(1, 0);
        }
    }
    /// [`clear`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn clear(&self, number: u32, now: u64) {
        clear(self, number, now);
    }
    /// True if the source has an entry.
    #[inline(always)]
    fn has(&self, key: &SourceKey, home: &Home) -> bool {
        find(self, key, home).is_some()
    }
    /// [`find_in_pair`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn find_in_pair(&self, key: &SourceKey, number: u32) -> Option<u32> {
        find_in_pair(self, key, number)
    }
    /// [`may_be_taken`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn may_be_taken(&self, entry: Self::Entry, tat: u64, now: u64, slot: u32) -> bool {
        may_be_taken(self, entry, tat, now, slot)
    }
    /// [`settle`]. The kernel program overrides it with a separate function.
    #[inline(always)]
    fn settle(&self, set: u32, way: u32, new: &New<'_>, distance: u32) -> Option<()> {
        settle(self, set, way, new, distance)
    }
}

type WordOf<T> = <<T as SharedTable>::Entry as Shared>::Word;

/// A new source.
#[derive(Clone, Copy, Debug)]
pub struct New<'a> {
    /// Its key.
    pub key: &'a SourceKey,
    /// The first TAT of its bucket.
    pub tat: u64,
    /// The epoch of the TAT.
    pub epoch: u32,
    /// The time, in nanoseconds.
    pub now: u64,
    /// It only takes the entry of a quiet source of its limit, which the limit holds already.
    pub replaces: bool,
}

/// The most packets of a quiet source.
pub const FEW: u64 = 2;

/// The result of adding a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The source is added and charged, and its packet is counted.
    Done,
    /// Another CPU has added the source, or has locked its home set.
    Raced,
    /// There is no room.
    NoRoom,
}

/// Finds the entry of a source in the set with this first entry. Returns the entry's number in the set.
#[inline(always)]
fn find_in<E: Shared>(set: E, key: &SourceKey, wide: bool) -> Option<u32> {
    let step = if wide { 2 } else { 1 };
    let mut way = 0;
    while way < WAYS {
        let entry = set.at(way);
        let is_its = if wide {
            entry.is_of(key)
        } else {
            entry.begins_with(key)
        };
        if is_its && is_taken(entry.load(TAT)) {
            return Some(way);
        }
        way += step;
    }
    None
}

/// Finds the entry of a source in the set `number` or the other set of its pair. Returns its index in the table.
#[inline(always)]
pub fn find_in_pair<T: SharedTable + ?Sized>(
    table: &T,
    key: &SourceKey,
    number: u32,
) -> Option<u32> {
    let found = find_in_set(table, key, number);
    found.or_else(|| find_in_set(table, key, number ^ 1))
}

#[inline(always)]
fn find_in_set<T: SharedTable + ?Sized>(table: &T, key: &SourceKey, number: u32) -> Option<u32> {
    let way = find_in(table.set(number)?, key, key.is_wide())?;
    Some(number * WAYS + way)
}

/// Finds the entry of a source in its probe sequence. Returns its index in the table.
#[inline(always)]
pub fn find<T: SharedTable + ?Sized>(table: &T, key: &SourceKey, home: &Home) -> Option<u32> {
    let overflow = table.overflow(home.set);
    if overflow.count() == 0 {
        return find_in_set(table, key, home.set);
    }
    let mut sequence = home.probe_sequence();
    for pair in 0..PAIRS_OF_SOURCE {
        let distance = pair * SETS_OF_PAIR;
        // Hidden, so that LLVM does not count iterations by `overflow`: Linux 6.1 would find no end of the loop.
        if !overflow.reaches(black_box(distance)) {
            break;
        }
        let found = table.find_in_pair(key, sequence.set(distance));
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Adds a source to the table unless it has an entry.
#[inline(always)]
pub fn add<T: SharedTable + ?Sized>(table: &T, new: &New<'_>) -> Added {
    // Reserved first: a limit never holds more entries than are counted.
    if !new.replaces && !table.reserve(new.key) {
        return Added::NoRoom;
    }
    let added = add_reserved(table, new);
    if !new.replaces && !matches!(added, Added::Done) {
        table.release_source(new.key);
    }
    added
}

#[inline(always)]
fn add_reserved<T: SharedTable + ?Sized>(table: &T, new: &New<'_>) -> Added {
    let home = table.home(new.key);
    if !table.lock(home.set) {
        return Added::Raced;
    }
    let added = add_locked(table, new, &home);
    table.unlock(home.set);
    added
}

/// True if the limit of a new source has room for it, if need be after a sweep.
#[inline(always)]
pub fn make_room<T: SharedTable + ?Sized>(table: &T, key: &SourceKey, now: u64) -> bool {
    if table.has_room(key) {
        return true;
    }
    sweep(table, now);
    table.has_room(key)
}

/// Sets in a sweep. They hold about four entries of the smallest share: one 66th of the table, with 33 limits that
/// tell sources apart.
pub const SWEPT: u32 = 128;

/// Clears the entries that may be taken in the next [`SWEPT`] sets.
#[inline(always)]
pub fn sweep<T: SharedTable + ?Sized>(table: &T, now: u64) {
    let first = table.hand();
    for step in 0..SWEPT {
        table.clear(first + step, now);
    }
}

/// Clears the entries of a set that may be taken. `number` wraps at the number of sets. It wraps here and not in
/// [`sweep`], where the verifier would follow both branches for each set.
#[inline(always)]
pub fn clear<T: SharedTable + ?Sized>(table: &T, number: u32, now: u64) {
    let number = number.checked_rem(table.sets()).unwrap_or(0);
    let Some(set) = table.set(number) else {
        return;
    };
    for way in 0..WAYS {
        clear_entry(table, set.at(way), number, way, now);
    }
}

#[inline(always)]
fn clear_entry<T: SharedTable + ?Sized>(
    table: &T,
    entry: T::Entry,
    number: u32,
    way: u32,
    now: u64,
) {
    if entry.load(TAT) == FREE {
        return;
    }
    let Some(tat) = take(table, entry, BUSY, now, ANY) else {
        return;
    };
    let was_wide = way.is_multiple_of(2) && is_wide(entry.load(OVER));
    let former = home_of_former(table, entry, tat, number, was_wide);
    if was_wide {
        entry.next().swap(TAT, REST, FREE);
    }
    entry.swap(TAT, BUSY, FREE);
    leave(table, former, number);
    if bucket::is_time(tat) {
        table.count_removed();
    }
}

/// Pairs of sets that are searched for a quiet source: in a flood, most are.
const QUIET_PAIRS: u32 = 4;

#[inline(always)]
fn add_locked<T: SharedTable + ?Sized>(table: &T, new: &New<'_>, home: &Home) -> Added {
    if table.has(new.key, home) {
        return Added::Raced;
    }
    let mut sequence = home.probe_sequence();
    let pairs = if new.replaces {
        QUIET_PAIRS
    } else {
        PAIRS_OF_SOURCE
    };
    for pair in 0..pairs {
        let distance = pair * SETS_OF_PAIR;
        let number = sequence.set(distance);
        for side in 0..SETS_OF_PAIR {
            for way in 0..WAYS {
                if way > 0 && new.key.is_wide() {
                    continue;
                }
                let settled = table.settle(number ^ side, way, new, distance + side);
                if settled.is_some() {
                    return Added::Done;
                }
            }
        }
    }
    Added::NoRoom
}

/// Puts the source into an entry of the set with this number. None if the entry may not be taken.
#[inline(always)]
pub fn settle<T: SharedTable + ?Sized>(
    table: &T,
    number: u32,
    way: u32,
    new: &New<'_>,
    distance: u32,
) -> Option<()> {
    let wide = new.key.is_wide();
    let entry = table.set(number)?.at(way);
    if new.replaces && wide {
        return None;
    }
    let slot = if new.replaces { new.key.slot() } else { ANY };
    let tat = take(table, entry, BUSY, new.now, slot)?;
    // Counted before the key is written: the count is never too low.
    let home = table.home(new.key).set;
    if number != home && !table.count_overflow(home, distance) {
        entry.swap(TAT, BUSY, tat);
        return None;
    }
    // A cleared entry still has the former key, but no second half.
    let was_wide = tat != FREE && way.is_multiple_of(2) && is_wide(entry.load(OVER));
    if wide {
        let second = entry.next();
        if !was_wide {
            let Some(second_tat) = take(table, second, REST, new.now, ANY) else {
                leave(table, home, number);
                entry.swap(TAT, BUSY, tat);
                return None;
            };
            let former = home_of_former(table, second, second_tat, number, false);
            second.store(PASSED, 0);
            second.store(OVER, 0);
            second.store(ADDRESS, new.key.rest);
            leave(table, former, number);
            if bucket::is_time(second_tat) {
                table.count_removed();
            }
        }
    }
    let former = if new.replaces {
        table.home(&entry.key()).set
    } else {
        home_of_former(table, entry, tat, number, was_wide)
    };
    if wide {
        entry.next().store(ADDRESS, new.key.rest);
    } else if was_wide {
        entry.next().swap(TAT, REST, FREE);
    }
    entry.store(ADDRESS, new.key.first);
    entry.store(PASSED, u64::from(new.key.port()) | ONE_PACKET);
    entry.store(OVER, with_epoch(new.key.limit(), new.epoch));
    entry.swap(TAT, BUSY, new.tat);
    leave(table, former, number);
    if bucket::is_time(tat) {
        table.count_removed();
    }
    Some(())
}

/// Releases the entries of the former source of a taken entry. Returns the source's home set; if there was no source,
/// `number`, the entry's set.
#[inline(always)]
fn home_of_former<T: SharedTable + ?Sized>(
    table: &T,
    entry: T::Entry,
    tat: u64,
    number: u32,
    was_wide: bool,
) -> u32 {
    if tat == FREE {
        return number;
    }
    let key = entry.key();
    table.release(key.slot(), if was_wide { 2 } else { 1 });
    table.home(&key).set
}

/// Uncounts a source that has left the set `number`, once its key is overwritten: the count is never too low.
#[inline(always)]
fn leave<T: SharedTable + ?Sized>(table: &T, home: u32, number: u32) {
    if home != number {
        table.uncount_overflow(home);
    }
}

/// No slot. Not an [`Option`]: see [`crate::policy::Found`].
const ANY: u32 = u32::MAX;

/// Takes an entry that may be taken: replaces its TAT with `mark`. Returns the former TAT. `slot`: see [`may_be_taken`].
#[inline(always)]
fn take<T: SharedTable + ?Sized>(
    table: &T,
    entry: T::Entry,
    mark: u64,
    now: u64,
    slot: u32,
) -> Option<u64> {
    let tat = entry.load(TAT);
    if is_out_of_reach(tat) || !table.may_be_taken(entry, tat, now, slot) {
        return None;
    }
    if !entry.swap(TAT, tat, mark) {
        return None;
    }
    // The entry may have changed hands before the swap. From now on it cannot.
    if !table.may_be_taken(entry, tat, now, slot) {
        entry.swap(TAT, mark, tat);
        return None;
    }
    Some(tat)
}

/// An entry may be taken if it has no source, or if its bucket is full and not kept for its source. With a `slot`
/// instead of [`ANY`]: if it is of a quiet source of that limit, and its key takes no second entry.
#[inline(always)]
pub fn may_be_taken<T: SharedTable + ?Sized>(
    table: &T,
    entry: T::Entry,
    tat: u64,
    now: u64,
    slot: u32,
) -> bool {
    let (passed, over) = (counter(entry.load(PASSED)), entry.load(OVER));
    let packets = passed + counter(over);
    if slot != ANY {
        return bucket::is_time(tat)
            && packets <= FEW
            && slot_in(over) == slot
            && !is_wide(over)
            && table.is_quiet(over, tat, passed, now);
    }
    if !bucket::is_time(tat) {
        return true;
    }
    match table.full_for(over, tat, now) {
        Some(full_for) => full_for >= KEPT_FOR || packets <= 1,
        None => false,
    }
}
