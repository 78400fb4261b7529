//! Counts the entries that each limit holds, and bounds them. A single limit has the whole table and is not counted:
//! the verifier removes these functions, or only their bodies before Linux 6.8.

use limiter_common::{
    abi::Share,
    policy,
    table::{
        key::{SLOTS, Tag},
        share,
    },
};

use crate::{
    atomic,
    config::{self, Kernel},
    maps::SHARES,
};

/// Attempts to reserve entries. If other CPUs win all of them, the source is refused.
const ATTEMPTS: u32 = 8;

/// Whether limits share the table.
#[inline(always)]
pub fn is_shared() -> bool {
    config::room() != 0
}

#[inline(always)]
fn word(slot: u32) -> Option<*mut u64> {
    let share: *mut Share = SHARES.get_ptr_mut(slot % SLOTS)?;
    // SAFETY: a field of a map value.
    Some(unsafe { &raw mut (*share).held })
}

/// Reserves the entries of a new source for its limit. Returns false if the limit has no room.
#[inline(always)]
pub fn reserve(tag: &Tag) -> bool {
    !is_shared() || room_reserve(tag) != 0
}

/// [`reserve`]: returns 1 if it did, otherwise 0. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_reserve(tag: *const Tag) -> u32 {
    if !is_shared() {
        return 1;
    }
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    let Some(tag) = (unsafe { tag.as_ref() }) else {
        return 0;
    };
    let (slot, entries) = (tag.slot(), tag.entries());
    let Some(word) = word(slot) else {
        return 0;
    };
    for _ in 0..ATTEMPTS {
        // SAFETY: an aligned word of a map value.
        let before = unsafe { atomic::load(word) };
        if room_is_left(slot, share::held(before) + u64::from(entries)) == 0 {
            return 0;
        }
        let after = before.wrapping_add(entries.into());
        // SAFETY: an aligned word of a map value.
        if unsafe { atomic::compare_and_swap(word, before, after) } == before {
            return 1;
        }
    }
    0
}

/// Undoes [`reserve`].
#[inline(always)]
pub fn release_source(tag: &Tag) {
    if is_shared() {
        room_release(tag);
    }
}

/// [`release_source`]. Returns 0. A separate function, for its stack frame.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_release(tag: *const Tag) -> u32 {
    // SAFETY: a valid pointer to the caller's memory, or null: the verifier requires this check.
    if let Some(tag) = unsafe { tag.as_ref() } {
        release(tag.slot(), tag.entries());
    }
    0
}

/// Subtracts `entries` from the entries that the limit in `slot` holds.
#[inline(always)]
pub fn release(slot: u32, entries: u32) {
    if is_shared()
        && let Some(word) = word(slot)
    {
        // SAFETY: an aligned word of a map value.
        unsafe { atomic::add(word, u64::from(entries).wrapping_neg()) };
    }
}

/// Entries that the limit in `slot` holds.
#[inline(always)]
pub fn held(slot: u32) -> u64 {
    // SAFETY: an aligned word of a map value.
    word(slot).map_or(0, |word| share::held(unsafe { atomic::load(word) }))
}

/// Whether the limit of the source has room for its entries.
#[inline(always)]
pub fn is_left(tag: &Tag) -> bool {
    let slot = tag.slot();
    !is_shared() || room_is_left(slot, held(slot) + u64::from(tag.entries())) != 0
}

/// [`policy::has_room`]: returns 1 if the limit has room, otherwise 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_is_left(slot: u32, wanted: u64) -> u32 {
    let kept = |index, slot| room_kept(index, slot);
    policy::has_room(&Kernel, kept, slot, wanted).into()
}

/// [`policy::kept`]: returns entries. A global function: the verifier checks it once, not once for each limit.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_kept(index: u32, slot: u32) -> u64 {
    policy::kept(&Kernel, held, index, slot)
}
