//! The table of sources: a hash map that finds them, and places that bound how many there are.
//!
//! A new source takes the next place that is free, or whose bucket is full again: forgetting a full
//! bucket loses nothing. But its source would then be a newcomer once more, which a flood of new
//! sources keeps out; so a source that has sent more than once keeps its place for a while. Where the
//! next few places are all kept the newcomer is refused.

use aya_ebpf::bindings::BPF_NOEXIST;
use limiter_common::{
    bucket,
    key::SourceKey,
    layout::{AT_ONCE, KEPT_FOR, PLACE_FREE, PLACE_LOCKED, PLACE_TAKEN, Place, Source, Table},
};

use crate::maps::{PLACES, SOURCES, TABLE};
use crate::{atomic, config, counters, entry::Entry, terms};

/// Places that a newcomer looks at before it is refused.
const LOOKS: u32 = 8;

/// `-EEXIST`.
const EXISTS: i32 = -17;

/// What became of a new source.
pub enum Added {
    /// It is in, and charged.
    Done,
    /// Another CPU has brought the same source in.
    Raced,
    /// It was not taken in.
    NoRoom,
}

/// The entry of `key`.
///
/// Slots of the hash map are reused without a grace period: an entry may turn into another source's
/// at any time. What must not happen to the wrong one is checked with [`moved_since`] afterwards.
#[inline(always)]
pub fn find(key: &SourceKey) -> Option<Entry> {
    // SAFETY: it comes from a lookup.
    SOURCES
        .get_ptr_mut(key)
        .map(|source| unsafe { Entry::new(source) })
}

/// How many removals are done. Taken before [`find`], for [`moved_since`].
#[inline(always)]
pub fn witness() -> u64 {
    match TABLE.get_ptr(0) {
        // SAFETY: a field of a map value.
        Some(table) => unsafe { atomic::load(&raw const (*table).removals_done) },
        None => 0,
    }
}

/// Whether a removal was under way at the time of `witness` or has begun since: only then can an
/// entry that was found have changed hands.
#[inline(always)]
pub fn moved_since(witness: u64) -> bool {
    match TABLE.get_ptr(0) {
        // SAFETY: a field of a map value.
        Some(table) => witness != unsafe { atomic::load(&raw const (*table).removals_begun) },
        None => false,
    }
}

/// Takes in a source whose bucket's first word is `tat`, on the terms of `epoch`, at `now`
/// (nanoseconds).
#[inline(always)]
pub fn add(key: &SourceKey, tat: u64, epoch: u32, now: u64) -> Added {
    let Some(table) = TABLE.get_ptr_mut(0) else {
        return Added::NoRoom;
    };
    for _ in 0..LOOKS {
        // SAFETY: a field of a map value.
        let hand = unsafe { atomic::fetch_add(&raw mut (*table).hand, 1) };
        // Checked, because a remainder that could panic is refused by the verifier.
        let Some(index) = hand.checked_rem(config::capacity() as u64) else {
            return Added::NoRoom;
        };
        let index = index as u32;
        let Some(place) = PLACES.get_ptr_mut(index) else {
            return Added::NoRoom;
        };
        if lock(place, index, table, now) {
            let source = Source {
                tat,
                epoch,
                place: index,
                ..Source::default()
            };
            return settle(place, key, source);
        }
    }
    Added::NoRoom
}

/// Locks the place, if it is free or can be freed.
#[inline(always)]
fn lock(place: *mut Place, index: u32, table: *mut Table, now: u64) -> bool {
    // SAFETY: fields of map values.
    unsafe {
        let state = atomic::load(&raw const (*place).state);
        if state == PLACE_LOCKED
            || atomic::compare_and_swap(&raw mut (*place).state, state, PLACE_LOCKED) != state
        {
            return false;
        }
        if state == PLACE_FREE || vacate(place, index, table, now) {
            return true;
        }
        unlock(place, PLACE_TAKEN);
    }
    false
}

/// By compare-and-swap, because it orders what was written under the lock before it.
///
/// # Safety
/// `place` is a map value that this CPU has locked.
#[inline(always)]
unsafe fn unlock(place: *mut Place, state: u64) {
    // SAFETY: the caller vouches for it.
    unsafe { atomic::compare_and_swap(&raw mut (*place).state, PLACE_LOCKED, state) };
}

/// Puts the source into the locked place, and unlocks it.
#[inline(always)]
fn settle(place: *mut Place, key: &SourceKey, source: Source) -> Added {
    let inserted = SOURCES.insert(key, source, BPF_NOEXIST as u64);
    // SAFETY: fields of a map value that this CPU has locked.
    unsafe {
        if inserted.is_ok() {
            (*place).key = *key;
            (*place).seen = source.tat;
            (*place).since = AT_ONCE;
        }
        unlock(
            place,
            if inserted.is_ok() {
                PLACE_TAKEN
            } else {
                PLACE_FREE
            },
        );
    }
    match inserted {
        Ok(()) => {
            counters::source_added();
            Added::Done
        }
        Err(EXISTS) => Added::Raced,
        Err(_) => Added::NoRoom,
    }
}

/// Forgets the source, if its bucket is full and its place is not kept for it. Whoever charges it at the
/// same moment either comes first, and it stays, or finds the word retired, and looks again.
///
/// # Safety
/// `place` is a map value that this CPU has locked.
#[inline(always)]
unsafe fn vacate(place: *mut Place, index: u32, table: *mut Table, now: u64) -> bool {
    // SAFETY: the caller vouches for it.
    let key = unsafe { &(*place).key };
    let Some(entry) = find(key) else {
        // Reset by the operator.
        return true;
    };
    if entry.place() != index {
        // Reset by the operator, and back in another place.
        return true;
    }
    let (epoch, tat) = (entry.epoch(), entry.tat());
    // SAFETY: as above.
    let kept = unsafe { is_kept(place, tat, now) };
    if !bucket::is_time(tat) || kept || terms::may_be_forgotten(key.slot(), epoch, tat, now) == 0 {
        return false;
    }
    // SAFETY: a field of a map value.
    unsafe { atomic::add(&raw mut (*table).removals_begun, 1) };
    let removed = remove(key, entry, epoch, tat);
    // SAFETY: as above.
    unsafe { atomic::add(&raw mut (*table).removals_done, 1) };
    removed
}

/// Whether the place is kept for its source, which has sent more than once, and not long ago. A look
/// costs nothing that packets of known sources would have to pay for: their buckets' words tell.
///
/// # Safety
/// As for [`vacate`].
#[inline(always)]
unsafe fn is_kept(place: *mut Place, tat: u64, now: u64) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe {
        if (*place).seen != tat {
            (*place).seen = tat;
            (*place).since = if now == AT_ONCE { AT_ONCE + 1 } else { now };
            return true;
        }
        (*place).since != AT_ONCE
            && now.wrapping_sub((*place).since).cast_signed() < KEPT_FOR.cast_signed()
    }
}

#[inline(always)]
fn remove(key: &SourceKey, entry: Entry, epoch: u32, tat: u64) -> bool {
    if !entry.swap_tat(tat, bucket::RETIRED) {
        return false;
    }
    // Another CPU may have converted it between the two reads that brought epoch and word, or the
    // operator may have reset it, and it came back.
    if entry.epoch() != epoch || find(key) != Some(entry) {
        entry.swap_tat(bucket::RETIRED, tat);
        return false;
    }
    // An error means that the operator's reset came first: gone all the same.
    if SOURCES.remove(key).is_ok() {
        counters::source_removed();
    }
    true
}
