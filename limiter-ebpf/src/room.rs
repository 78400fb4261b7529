//! Counts the entries that each limit holds, and bounds them. A single limit has the whole table and is not counted:
//! the verifier removes these functions, or only their bodies before Linux 6.8.

use limiter_common::{
    abi::Share,
    policy,
    table::{
        key::{SLOTS, SourceKey},
        share,
        word::Word as _,
    },
};

use crate::{atomic::Word, constants, lent, maps::SHARES};

/// Attempts to reserve entries. If other CPUs win all of them, the source is refused.
const ATTEMPTS: u32 = 8;

/// True if limits share the table.
#[inline(always)]
pub fn is_shared() -> bool {
    constants().room != 0
}

#[inline(always)]
fn word(slot: u32) -> Option<Word> {
    let share: *mut Share = SHARES.get_ptr_mut(slot % SLOTS)?;
    // SAFETY: an aligned field of a map value.
    Some(unsafe { Word::at(&raw mut (*share).held) })
}

/// Reserves the entries of a new source for its limit. Returns false if the limit has no room.
#[inline(always)]
pub fn reserve(key: &SourceKey) -> bool {
    !is_shared() || room_reserve(key) != 0
}

/// Undoes [`reserve`].
#[inline(always)]
pub fn release_source(key: &SourceKey) {
    if is_shared() {
        room_release(key);
    }
}

/// [`reserve`]: returns 1 or 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_reserve(key: *const SourceKey) -> u32 {
    if !is_shared() {
        return 1;
    }
    lent!(key);
    let (slot, entries) = (key.slot(), key.entries());
    let Some(word) = word(slot) else {
        return 0;
    };
    for _ in 0..ATTEMPTS {
        let before = word.load();
        if room_is_left(slot, share::held(before) + u64::from(entries)) == 0 {
            return 0;
        }
        if word.swap(before, before.wrapping_add(entries.into())) {
            return 1;
        }
    }
    0
}

/// [`release_source`]: returns 0. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_release(key: *const SourceKey) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    if let Some(key) = unsafe { key.as_ref() } {
        release(key.slot(), key.entries());
    }
    0
}

/// Subtracts `entries` from the entries that the limit in `slot` holds.
#[inline(always)]
pub fn release(slot: u32, entries: u32) {
    if is_shared()
        && let Some(word) = word(slot)
    {
        word.add(u64::from(entries).wrapping_neg());
    }
}

/// Entries that the limit in `slot` holds.
#[inline(always)]
pub fn held(slot: u32) -> u64 {
    word(slot).map_or(0, |word| share::held(word.load()))
}

/// True if the limit of the source has room for its entries.
#[inline(always)]
pub fn is_left(key: &SourceKey) -> bool {
    let slot = key.slot();
    !is_shared() || room_is_left(slot, held(slot) + u64::from(key.entries())) != 0
}

/// [`policy::has_room`]: returns 1 if the limit has room, otherwise 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_is_left(slot: u32, wanted: u64) -> u32 {
    let kept = |index, slot| room_kept(index, slot);
    policy::has_room(constants(), kept, slot, wanted).into()
}

/// [`policy::kept`]: returns entries. A global function: the verifier checks it once, not once for each limit.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_kept(index: u32, slot: u32) -> u64 {
    policy::kept(constants(), held, index, slot)
}
