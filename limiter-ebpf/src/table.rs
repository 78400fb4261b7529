//! The table of [`limiter_common::table`] in maps.

use limiter_common::{
    abi::{
        LOCKS, SETS_OF_WORD,
        log::Logged,
        rules::{FIRST, row},
    },
    table::{
        self, Added, Home, New, OVERFLOW_WIDTH, SWEPT, SharedTable, WAYS,
        key::{SLOTS, SourceKey},
    },
};

use crate::{
    atomic::Word,
    constants, counters,
    entry_place::EntryPlace,
    lent, log,
    maps::{LOCKED, OVERFLOW, TABLE},
    new_sources, past_quota, room,
};

/// The entry with the key's address in its home set, or else the entry of the source. The caller compares the key.
#[inline(always)]
pub fn likely(key: &SourceKey) -> Option<EntryPlace> {
    if !key.is_wide() {
        let home = Maps.home(key);
        let found = EntryPlace::first_of(home.set)?.with(key.first);
        if found.is_some() || Maps.overflow(home.set).count() == 0 {
            return found;
        }
    }
    entry(entry_number(key))
}

/// The entry with this number; none for 0.
#[inline(always)]
pub fn entry(number: u32) -> Option<EntryPlace> {
    let index = number.checked_sub(1)?;
    Some(EntryPlace::first_of(index / WAYS)?.kept_at(index % WAYS))
}

/// Number of a source's entry, counted from 1; 0 if the source has no entry.
#[inline(always)]
pub fn entry_number(key: &SourceKey) -> u32 {
    table_find(key)
}

/// [`entry_number`]. A global function: the verifier checks it once (Linux 5.6; pointers to memory, 5.12).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_find(key: *const SourceKey) -> u32 {
    lent!(key);
    table::find(&Maps, key, &Maps.home(key)).map_or(0, |index| index + 1)
}

/// [`table::find_in_pair`]. Returns the entry's number, counted from 1, or 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_find_in(key: *const SourceKey, set: u32) -> u32 {
    lent!(key);
    table::find_in_pair(&Maps, key, set).map_or(0, |index| index + 1)
}

/// Bit of a distance: the source only takes the entry of a quiet source of its limit. A function has five arguments.
const REPLACES: u32 = 1 << 31;

/// [`table::may_be_taken`] for the entry with this number: 1 or 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_may_take(number: u32, tat: u64, now: u64, slot: u32) -> u32 {
    entry(number)
        .is_some_and(|entry| table::may_be_taken(&Maps, entry, tat, now, slot))
        .into()
}

/// [`table::settle`] for the entry with this index. Returns 1, or 0 if the entry may not be taken.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_settle(
    key: *const SourceKey,
    index: u32,
    distance: u32,
    tat: u64,
    now: u64,
) -> u32 {
    lent!(key);
    let Some((_, limit)) = constants().limit_in(key.slot()) else {
        return 0;
    };
    let new = New {
        key,
        tat,
        epoch: limit.epoch,
        now,
        replaces: distance & REPLACES != 0,
    };
    let distance = distance & !REPLACES;
    let settled = table::settle(&Maps, index / WAYS, index % WAYS, &new, distance);
    settled.is_some().into()
}

/// Adds a source with `tat` as its first TAT, on the quota of the present `epoch`, at `now` (nanoseconds).
/// `replaces`: only in the place of a quiet source of its limit.
#[inline(always)]
pub fn add(key: &SourceKey, tat: u64, epoch: u32, now: u64, replaces: bool) -> Added {
    let new = New {
        key,
        tat,
        epoch,
        now,
        replaces,
    };
    let added = table::add(&Maps, &new);
    match added {
        Added::Done => counters::one_more(|counters| &mut counters.sources_added),
        Added::NoRoom => log::note(Logged::TableFull),
        Added::Raced => {}
    }
    added
}

/// True if the limit of a new source has a new-source token at `now` (nanoseconds), and room, if need be after a sweep.
/// The token is one of `budget`. `take`: takes the token.
#[inline(always)]
pub fn admits(key: &SourceKey, now: u64, budget: u32, take: bool) -> bool {
    let is_free = constants().new_sources.cost == 0 && !room::is_shared();
    is_free || table_admits(key, now, row(key.slot(), budget), take.into()) != 0
}

/// [`admits`]: returns 1 if the limit has token and room, otherwise 0. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn table_admits(key: *const SourceKey, now: u64, row: u32, take: u32) -> u32 {
    lent!(key);
    let budget = row / SLOTS;
    if budget != FIRST && new_sources::is_exhausted(row) {
        return 0;
    }
    if !new_sources::reserve(row, now) {
        return 0;
    }
    if budget == FIRST && !table::make_room(&Maps, key, now) {
        log::note(Logged::TableFull);
        new_sources::waste(row);
        return 0;
    }
    if take != 0 {
        new_sources::take(row);
        counters::taken(budget);
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

impl SharedTable for Maps {
    type Entry = EntryPlace;

    #[inline(always)]
    fn set(&self, number: u32) -> Option<EntryPlace> {
        EntryPlace::first_of(number)
    }

    #[inline(always)]
    fn home(&self, key: &SourceKey) -> Home {
        constants().seed.home(key, self.sets())
    }

    #[inline(always)]
    fn overflow_word(&self, set: u32) -> Option<(Word, u32)> {
        let word = OVERFLOW.get_ptr_mut(set / SETS_OF_WORD)?;
        // SAFETY: an aligned map value.
        Some((
            unsafe { Word::at(word) },
            set % SETS_OF_WORD * OVERFLOW_WIDTH,
        ))
    }

    #[inline(always)]
    fn lock_word(&self, set: u32) -> Option<Word> {
        let word = LOCKED.get_ptr_mut(set % LOCKS)?;
        // SAFETY: an aligned map value.
        Some(unsafe { Word::at(word) })
    }

    #[inline(always)]
    fn full_for(&self, over: u64, tat: u64, now: u64) -> Option<u64> {
        past_quota::full_for(over, tat, now)
    }

    #[inline(always)]
    fn is_quiet(&self, over: u64, tat: u64, packets: u64, now: u64) -> bool {
        past_quota::is_quiet(over, tat, packets, now) != 0
    }

    #[inline(always)]
    fn sets(&self) -> u32 {
        constants().sets
    }

    #[inline(always)]
    fn reserve(&self, key: &SourceKey) -> bool {
        room::reserve(key)
    }

    #[inline(always)]
    fn release(&self, slot: u32, entries: u32) {
        room::release(slot, entries);
    }

    #[inline(always)]
    fn release_source(&self, key: &SourceKey) {
        room::release_source(key);
    }

    #[inline(always)]
    fn has_room(&self, key: &SourceKey) -> bool {
        room::is_left(key)
    }

    #[inline(always)]
    fn hand(&self) -> u32 {
        let Some(table) = TABLE.get_ptr_mut(0) else {
            return 0;
        };
        // SAFETY: an aligned field of a map value.
        let hand = unsafe { Word::at(&raw mut (*table).hand) }.fetch_add(SWEPT.into());
        (hand as u32).checked_rem(self.sets()).unwrap_or(0)
    }

    #[inline(always)]
    fn count_removed(&self) {
        counters::one_more(|counters| &mut counters.sources_removed);
    }

    #[inline(always)]
    fn clear(&self, number: u32, now: u64) {
        table_clear(number, now);
    }

    #[inline(always)]
    fn has(&self, key: &SourceKey, _: &Home) -> bool {
        entry_number(key) != 0
    }

    #[inline(always)]
    fn find_in_pair(&self, key: &SourceKey, number: u32) -> Option<u32> {
        table_find_in(key, number).checked_sub(1)
    }

    #[inline(always)]
    fn may_be_taken(&self, entry: EntryPlace, tat: u64, now: u64, slot: u32) -> bool {
        table_may_take(entry.number(), tat, now, slot) != 0
    }

    #[inline(always)]
    fn settle(&self, set: u32, way: u32, new: &New<'_>, distance: u32) -> Option<()> {
        let index = set * WAYS + way;
        let distance = distance | if new.replaces { REPLACES } else { 0 };
        let settled = table_settle(new.key, index, distance, new.tat, new.now);
        (settled != 0).then_some(())
    }
}
