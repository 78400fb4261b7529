//! The table of [`limiter_common::table`] in maps.

use limiter_common::{
    abi::{LOCKS, SETS_OF_WORD},
    policy::Limit as _,
    table::{
        self, Home, New, OVERFLOW_WIDTH, Overflow, SWEPT, SharedSet, SharedTable, WAYS,
        entry::{Protocol, Shared as _, TAT, is_taken},
        key::Tag,
    },
};

pub use limiter_common::table::Added;

use crate::{
    atomic, config, counters,
    entry::{Entry, Set},
    maps::{LOCKED, OVERFLOW, SETS, TABLE},
    new_sources, quota, room,
};

/// Attempts to take a lock: enough for another CPU to add a source that finds room.
const TRIES: u32 = 64;

/// Attempts to count a source in overflow sets: other CPUs change the word for other sets.
const COUNT_TRIES: u32 = 4;

/// Finds the entry of a source. The search of the home set is inlined.
#[inline(always)]
pub fn find_inline(tag: &Tag) -> Option<Entry> {
    if !tag.is_wide() {
        let home = Maps.home(tag);
        match Maps.set(home.set)?.entry_with(tag.address) {
            Some(entry) if entry.begins_with(tag) && is_taken(entry.load(TAT)) => {
                return Some(entry);
            }
            // The entry belongs to another limit, or its source was reset.
            Some(_) => {}
            None if Maps.overflow(home.set).count() == 0 => return None,
            None => {}
        }
    }
    entry(entry_number(tag))
}

/// Number of a source's entry, counted from 1; 0 if the source has no entry.
#[inline(always)]
pub fn entry_number(tag: &Tag) -> u32 {
    table_find(tag)
}

/// The entry with this number; none for 0.
#[inline(always)]
pub fn entry(number: u32) -> Option<Entry> {
    let index = number.checked_sub(1)?;
    Some(Maps.set(index / WAYS)?.entry(index % WAYS))
}

/// [`entry_number`]: returns the number, or 0. A global function: the verifier checks the loop once (Linux 5.6;
/// pointers to memory, 5.12).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_find(tag: *const Tag) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    let Some(tag) = (unsafe { tag.as_ref() }) else {
        return 0;
    };
    match table::find(&Maps, tag, &Maps.home(tag)) {
        Some((set, entry)) => set * WAYS + entry.way() + 1,
        None => 0,
    }
}

/// [`table::settle`] for the entry with this index. Returns [`DONE`], [`REPLACED`], or 0 if the entry may not be taken.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_settle(tag: *const Tag, index: u32, distance: u32, tat: u64, now: u64) -> u32 {
    settle(tag, index, distance, tat, now, false)
}

/// [`table_settle`] for a key that takes two entries. A separate function, for the stack frame of the other one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_settle_wide(
    tag: *const Tag,
    index: u32,
    distance: u32,
    tat: u64,
    now: u64,
) -> u32 {
    settle(tag, index, distance, tat, now, true)
}

#[inline(always)]
fn settle(tag: *const Tag, index: u32, distance: u32, tat: u64, now: u64, wide: bool) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    let Some(tag) = (unsafe { tag.as_ref() }) else {
        return 0;
    };
    let Some(limit) = config::index_of(tag.slot()).and_then(config::limit) else {
        return 0;
    };
    let new = New {
        tag,
        tat,
        epoch: limit.epoch(),
        now,
    };
    match table::settle(&Maps, index / WAYS, index % WAYS, &new, distance, wide) {
        Some(Added::Done) => DONE,
        Some(Added::Replaced) => REPLACED,
        _ => 0,
    }
}

const DONE: u32 = 1;
const REPLACED: u32 = 2;

/// Adds a source with `tat` as its first TAT, on the quota of the present `epoch`, at `now` (nanoseconds).
#[inline(always)]
pub fn add(tag: &Tag, tat: u64, epoch: u32, now: u64) -> Added {
    let new = New {
        tag,
        tat,
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

/// Whether the limit of a new source has a new-source token at `now` (nanoseconds), and room, if need be after a sweep.
/// `take`: takes the token.
#[inline(always)]
pub fn admits(tag: &Tag, now: u64, take: bool) -> bool {
    let is_free = config::new_sources().cost == 0 && !room::is_shared();
    is_free || table_admits(tag, now, take.into()) != 0
}

/// [`admits`]: returns 1 if the limit has token and room, otherwise 0. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_admits(tag: *const Tag, now: u64, take: u32) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
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

/// [`table::clear`]. Returns 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_clear(number: u32, now: u64) -> u32 {
    table::clear(&Maps, number, now);
    0
}

/// The maps of the table.
struct Maps;

impl Maps {
    /// The word with the overflow byte of a set, and the shift of the byte.
    #[inline(always)]
    fn overflow_byte(set: u32) -> Option<(*mut u64, u32)> {
        let word = OVERFLOW.get_ptr_mut(set / SETS_OF_WORD)?;
        Some((word, set % SETS_OF_WORD * OVERFLOW_WIDTH))
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
        // SAFETY: the result of a lookup.
        SETS.get_ptr_mut(number).map(|set| unsafe { Set::new(set) })
    }

    #[inline(always)]
    fn home(&self, tag: &Tag) -> Home {
        config::seed().home(tag, config::sets())
    }

    #[inline(always)]
    fn overflow(&self, set: u32) -> Overflow {
        Self::overflow_byte(set).map_or(Overflow::default(), |(word, shift)| {
            // SAFETY: an aligned word of a map value.
            Overflow::in_word(unsafe { atomic::load(word) }, shift)
        })
    }

    #[inline(always)]
    fn count_overflow(&self, set: u32, distance: u32) -> bool {
        let Some((word, shift)) = Self::overflow_byte(set) else {
            return false;
        };
        for _ in 0..COUNT_TRIES {
            // SAFETY: an aligned word of a map value.
            let before = unsafe { atomic::load(word) };
            let Some(more) = Overflow::in_word(before, shift).with_one_more(distance) else {
                return false;
            };
            let after = more.put_into(before, shift);
            // SAFETY: an aligned word of a map value.
            if unsafe { atomic::compare_and_swap(word, before, after) } == before {
                return true;
            }
        }
        false
    }

    #[inline(always)]
    fn uncount_overflow(&self, set: u32) {
        if let Some((word, shift)) = Self::overflow_byte(set) {
            // SAFETY: an aligned word of a map value. The count is at least 1, so the bits above it do not change.
            unsafe { atomic::add(word, u64::MAX << shift) };
        }
    }

    #[inline(always)]
    fn lock(&self, set: u32) -> bool {
        let Some(word) = Self::lock_of(set) else {
            return false;
        };
        for _ in 0..TRIES {
            // SAFETY: an aligned word of a map value.
            if unsafe { atomic::compare_and_swap(word, UNLOCKED, LOCKED_BY_ONE) } == UNLOCKED {
                return true;
            }
        }
        false
    }

    /// By compare-and-swap, which is a memory barrier.
    #[inline(always)]
    fn unlock(&self, set: u32) {
        if let Some(word) = Self::lock_of(set) {
            // SAFETY: an aligned word of a map value.
            unsafe { atomic::compare_and_swap(word, LOCKED_BY_ONE, UNLOCKED) };
        }
    }

    #[inline(always)]
    fn full_for(&self, over: u64, tat: u64, now: u64) -> Option<u64> {
        quota::full_for(over, tat, now).checked_sub(1)
    }

    #[inline(always)]
    fn count_second_removed(&self) {
        counters::source_removed();
    }

    #[inline(always)]
    fn sets(&self) -> u32 {
        config::sets()
    }

    #[inline(always)]
    fn reserve(&self, tag: &Tag) -> bool {
        room::reserve(tag)
    }

    #[inline(always)]
    fn release(&self, slot: u32, entries: u32) {
        room::release(slot, entries);
    }

    #[inline(always)]
    fn release_source(&self, tag: &Tag) {
        room::release_source(tag);
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
    fn count_cleared(&self) {
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
    fn settle(&self, set: u32, way: u32, new: &New<'_>, distance: u32) -> Option<Added> {
        let index = set * WAYS + way;
        let code = if new.tag.is_wide() {
            table_settle_wide(new.tag, index, distance, new.tat, new.now)
        } else {
            table_settle(new.tag, index, distance, new.tat, new.now)
        };
        match code {
            DONE => Some(Added::Done),
            REPLACED => Some(Added::Replaced),
            _ => None,
        }
    }
}

const UNLOCKED: u64 = 0;
const LOCKED_BY_ONE: u64 = 1;
