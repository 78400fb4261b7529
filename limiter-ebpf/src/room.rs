//! Entries that each limit holds: how many it may, and how many there are. One limit has the whole table, and nothing
//! is counted: the verifier leaves these functions out, and Linux before 6.8, which keeps them, their bodies.

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

/// Losing this often means that other CPUs brought sources of the limit in as often.
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

/// Counts the entries of one more source for its limit, if that has room for them.
#[inline(always)]
pub fn hold(tag: &Tag) -> bool {
    !is_shared() || room_hold(tag) != 0
}

/// Returns 1 if the entries are counted; 0 without room, or if all attempts are lost. A function for its stack.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_hold(tag: *const Tag) -> u32 {
    if !is_shared() {
        return 1;
    }
    // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
    let Some(tag) = (unsafe { tag.as_ref() }) else {
        return 0;
    };
    let (slot, entries) = (tag.slot(), tag.entries());
    let Some(word) = word(slot) else {
        return 0;
    };
    for _ in 0..ATTEMPTS {
        // SAFETY: a word of a map value, aligned.
        let before = unsafe { atomic::load(word) };
        if room_is_left(slot, share::held(before) + u64::from(entries)) == 0 {
            return 0;
        }
        let after = before.wrapping_add(entries.into());
        // SAFETY: as above.
        if unsafe { atomic::compare_and_swap(word, before, after) } == before {
            return 1;
        }
    }
    0
}

/// Counts the entries of a source that has not come in less for its limit.
#[inline(always)]
pub fn let_go(tag: &Tag) {
    if is_shared() {
        room_let_go(tag);
    }
}

/// Always 0. A function of its own, for its stack.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_let_go(tag: *const Tag) -> u32 {
    // SAFETY: as above.
    if let Some(tag) = unsafe { tag.as_ref() } {
        release(tag.slot(), tag.entries());
    }
    0
}

/// Counts `entries` less.
#[inline(always)]
pub fn release(slot: u32, entries: u32) {
    if is_shared()
        && let Some(word) = word(slot)
    {
        // SAFETY: as above.
        unsafe { atomic::add(word, u64::from(entries).wrapping_neg()) };
    }
}

/// Entries that the limit in `slot` holds.
#[inline(always)]
pub fn held(slot: u32) -> u64 {
    // SAFETY: as above.
    word(slot).map_or(0, |word| share::held(unsafe { atomic::load(word) }))
}

/// Whether the limit of the source has room for it.
#[inline(always)]
pub fn is_left(tag: &Tag) -> bool {
    let slot = tag.slot();
    !is_shared() || room_is_left(slot, held(slot) + u64::from(tag.entries())) != 0
}

/// [`policy::has_room`]: 1 if the limit has room, else 0.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_is_left(slot: u32, wanted: u64) -> u32 {
    let kept = |index, slot| room_kept(index, slot);
    policy::has_room(&Kernel, kept, slot, wanted).into()
}

/// [`policy::kept`], in entries. A function of its own, so that the verifier checks it once, not once for each limit.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn room_kept(index: u32, slot: u32) -> u64 {
    policy::kept(&Kernel, held, index, slot)
}
