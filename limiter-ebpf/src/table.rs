//! The table of sources, as [`limiter_common::table`] has it, in maps.

use limiter_common::{
    abi::{LOCKS, SETS_OF_WORD},
    policy::Limit as _,
    table::{
        self, DISPLACED_WIDTH, Displaced, Home, New, SWEPT, SharedSet, SharedTable, WAYS,
        entry::{Protocol, Shared as _, TAT, is_taken},
        key::Tag,
    },
};

pub use limiter_common::table::Added;

use crate::{
    atomic, config, counters,
    entry::{Entry, Set},
    maps::{DISPLACED, LOCKED, SETS, TABLE},
    new_sources, quota, room,
};

/// Attempts to take a lock: longer than it takes to bring a source in, unless that source finds no room.
const TRIES: u32 = 64;

/// Attempts of a set to count: other CPUs count at the same moment in sets that share its word.
const COUNT_TRIES: u32 = 4;

/// The entry of a source: the short way, with the first look in line.
#[inline(always)]
pub fn find_in_line(tag: &Tag) -> Option<Entry> {
    if !tag.is_wide() {
        let home = Maps.home(tag);
        match Maps.set(home.set)?.entry_with(tag.address) {
            Some(entry) if entry.begins_with(tag) && is_taken(entry.load(TAT)) => {
                return Some(entry);
            }
            // Another limit has one of the same address, or the source was forgotten, and is back.
            Some(_) => {}
            None if Maps.displaced(home.set).count() == 0 => return None,
            None => {}
        }
    }
    entry(place_of(tag))
}

/// Number of the entry of a source, counted from 1, in any set; 0 if there is none.
#[inline(always)]
pub fn place_of(tag: &Tag) -> u32 {
    table_find(tag)
}

/// The entry with this number; none for 0.
#[inline(always)]
pub fn entry(place: u32) -> Option<Entry> {
    let number = place.checked_sub(1)?;
    Some(Maps.set(number / WAYS)?.entry(number % WAYS))
}

/// [`place_of`]: the entry's number, or 0 if there is none. A function of its own, so that the verifier checks the
/// loop once (global functions, Linux 5.6; pointers to memory, 5.12).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_find(tag: *const Tag) -> u32 {
    // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
    let Some(tag) = (unsafe { tag.as_ref() }) else {
        return 0;
    };
    match table::find_far(&Maps, tag, &Maps.home(tag)) {
        Some((set, entry)) => set * WAYS + entry.way() + 1,
        None => 0,
    }
}

/// [`table::settle`] for the entry with this number. [`DONE`], [`REPLACED`], or 0 if the entry may not be taken.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_settle(tag: *const Tag, number: u32, place: u32, word: u64, now: u64) -> u32 {
    settle(tag, number, place, word, now, false)
}

/// [`table_settle`] for a key that takes two entries, with its codes. A separate function, for the other one's stack.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_settle_wide(
    tag: *const Tag,
    number: u32,
    place: u32,
    word: u64,
    now: u64,
) -> u32 {
    settle(tag, number, place, word, now, true)
}

#[inline(always)]
fn settle(tag: *const Tag, number: u32, place: u32, word: u64, now: u64, wide: bool) -> u32 {
    // SAFETY: as above.
    let Some(tag) = (unsafe { tag.as_ref() }) else {
        return 0;
    };
    let Some(limit) = config::index_of(tag.slot()).and_then(config::limit) else {
        return 0;
    };
    let new = New {
        tag,
        word,
        epoch: limit.epoch(),
        now,
    };
    match table::settle(&Maps, number / WAYS, number % WAYS, &new, place, wide) {
        Some(Added::Done) => DONE,
        Some(Added::Replaced) => REPLACED,
        _ => 0,
    }
}

const DONE: u32 = 1;
const REPLACED: u32 = 2;

/// Adds a source with `word` as its bucket's first word, on the quota of `epoch`, which is the present one, at
/// `now` (nanoseconds).
#[inline(always)]
pub fn add(tag: &Tag, word: u64, epoch: u32, now: u64) -> Added {
    let new = New {
        tag,
        word,
        epoch,
        now,
    };
    let added = table::add(&Maps, &new);
    match added {
        Added::Done => counters::source_added(),
        Added::Replaced => {
            counters::source_added();
            counters::source_removed();
        }
        Added::Raced | Added::NoRoom => {}
    }
    added
}

/// Whether the limit of a new source has leave for one more bucket at `now` (nanoseconds), and room for it, if need be
/// after a sweep. The token that it has leave for stays in the lease if it is not taken.
#[inline(always)]
pub fn admits(tag: &Tag, now: u64, take: bool) -> bool {
    let is_free = config::new_sources().cost == 0 && !room::is_shared();
    is_free || table_admits(tag, now, take.into()) != 0
}

/// [`admits`]: 1 if the limit has leave and room, else 0. A function of its own, for its stack.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_admits(tag: *const Tag, now: u64, take: u32) -> u32 {
    // SAFETY: as above.
    let Some(tag) = (unsafe { tag.as_ref() }) else {
        return 0;
    };
    let slot = tag.slot();
    if !new_sources::reserve(slot, now) {
        return 0;
    }
    if !table::make_room(&Maps, tag, now) {
        new_sources::waste(slot);
        return 0;
    }
    if take != 0 {
        new_sources::take(slot);
    }
    1
}

/// [`table::clear`]. Always 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_clear(number: u32, now: u64) -> u32 {
    table::clear(&Maps, number, now);
    0
}

/// The maps that the table is in.
struct Maps;

impl Maps {
    /// The word in which a set counts, and by how much that is shifted.
    #[inline(always)]
    fn count(set: u32) -> Option<(*mut u64, u32)> {
        let word = DISPLACED.get_ptr_mut(set / SETS_OF_WORD)?;
        Some((word, set % SETS_OF_WORD * DISPLACED_WIDTH))
    }

    #[inline(always)]
    fn lock_of(set: u32) -> Option<*mut u64> {
        LOCKED.get_ptr_mut(set % LOCKS)
    }
}

impl SharedTable for Maps {
    type Set = Set;

    #[inline(always)]
    fn set(&self, number: u32) -> Option<Set> {
        // SAFETY: it comes from a lookup.
        SETS.get_ptr_mut(number).map(|set| unsafe { Set::new(set) })
    }

    #[inline(always)]
    fn home(&self, tag: &Tag) -> Home {
        config::seed().home(tag, config::sets())
    }

    #[inline(always)]
    fn displaced(&self, set: u32) -> Displaced {
        Self::count(set).map_or(Displaced::default(), |(word, shift)| {
            // SAFETY: a map value of eight bytes, aligned.
            Displaced::in_word(unsafe { atomic::load(word) }, shift)
        })
    }

    #[inline(always)]
    fn displace(&self, set: u32, place: u32) -> bool {
        let Some((word, shift)) = Self::count(set) else {
            return false;
        };
        for _ in 0..COUNT_TRIES {
            // SAFETY: as above.
            let before = unsafe { atomic::load(word) };
            let Some(more) = Displaced::in_word(before, shift).and_one(place) else {
                return false;
            };
            let after = more.put_into(before, shift);
            // SAFETY: as above.
            if unsafe { atomic::compare_and_swap(word, before, after) } == before {
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn replace(&self, set: u32) {
        if let Some((word, shift)) = Self::count(set) {
            // SAFETY: as above. There is one that is counted: the bits above stay as they are.
            unsafe { atomic::add(word, u64::MAX << shift) };
        }
    }

    #[inline(always)]
    fn lock(&self, set: u32) -> bool {
        let Some(word) = Self::lock_of(set) else {
            return false;
        };
        for _ in 0..TRIES {
            // SAFETY: a map value of eight bytes, aligned.
            if unsafe { atomic::compare_and_swap(word, UNLOCKED, LOCKED_BY_ONE) } == UNLOCKED {
                return true;
            }
        }
        false
    }

    /// By compare-and-swap, because it orders what was done under the lock before it.
    #[inline(always)]
    fn unlock(&self, set: u32) {
        if let Some(word) = Self::lock_of(set) {
            // SAFETY: as above.
            unsafe { atomic::compare_and_swap(word, LOCKED_BY_ONE, UNLOCKED) };
        }
    }

    #[inline(always)]
    fn full_for(&self, over: u64, word: u64, now: u64) -> Option<u64> {
        quota::full_for(over, word, now).checked_sub(1)
    }

    #[inline(always)]
    fn second_replaced(&self) {
        counters::source_removed();
    }

    #[inline(always)]
    fn sets(&self) -> u32 {
        config::sets()
    }

    #[inline(always)]
    fn hold(&self, tag: &Tag) -> bool {
        room::hold(tag)
    }

    #[inline(always)]
    fn release(&self, slot: u32, entries: u32) {
        room::release(slot, entries);
    }

    #[inline(always)]
    fn let_go(&self, tag: &Tag) {
        room::let_go(tag);
    }

    #[inline(always)]
    fn has_room(&self, tag: &Tag) -> bool {
        room::is_left(tag)
    }

    #[inline(always)]
    fn hand(&self) -> u32 {
        let Some(table) = TABLE.get_ptr_mut(0) else {
            return 0;
        };
        // SAFETY: a field of a map value.
        let hand = unsafe { atomic::fetch_add(&raw mut (*table).hand, SWEPT.into()) };
        (hand as u32).checked_rem(config::sets()).unwrap_or(0)
    }

    #[inline(always)]
    fn cleared(&self) {
        counters::source_removed();
    }

    #[inline(always)]
    fn clear(&self, number: u32, now: u64) {
        table_clear(number, now);
    }

    #[inline(always)]
    fn has(&self, tag: &Tag, _: &Home) -> bool {
        table_find(tag) != 0
    }

    #[inline(always)]
    fn settle(&self, set: u32, way: u32, new: &New<'_>, place: u32) -> Option<Added> {
        let number = set * WAYS + way;
        let said = if new.tag.is_wide() {
            table_settle_wide(new.tag, number, place, new.word, new.now)
        } else {
            table_settle(new.tag, number, place, new.word, new.now)
        };
        match said {
            DONE => Some(Added::Done),
            REPLACED => Some(Added::Replaced),
            _ => None,
        }
    }
}

const UNLOCKED: u64 = 0;
const LOCKED_BY_ONE: u64 = 1;
