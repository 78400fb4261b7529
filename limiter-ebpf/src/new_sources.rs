//! The new-source limit in maps, and the other budgets: buckets, and each CPU's leases. A
//! [`row`](limiter_common::abi::rules::row) is that of a limit and a budget.

use limiter_common::{
    abi::{
        Lease,
        rules::{BUDGETS, ROWS},
    },
    policy::new_sources::{self, ATTEMPTS, LOST},
    table::key::SLOTS,
};

use crate::{
    atomic::Word,
    clock, constants,
    maps::{LEASES, SHARES, TABLE},
    room,
};

/// New sources that are refused without reading the buckets after a refusal, until the next tick at most. So a flood
/// reads neither the clock nor words that other CPUs write.
const DRY: u64 = 16;

/// This CPU's lease for the row.
#[inline(always)]
fn lease(row: u32) -> Option<*mut Lease> {
    LEASES.get_ptr_mut(row)
}

/// True if the row has just refused a new source, and refuses this one too.
#[inline(always)]
pub fn is_exhausted(row: u32) -> bool {
    if constants().new_sources.cost == 0 && !room::is_shared() {
        return false;
    }
    let Some(lease) = lease(row) else {
        return true;
    };
    // SAFETY: this CPU's own map value.
    unsafe {
        if (*lease).dry == 0 || (*lease).jiffy != clock::jiffy() {
            return false;
        }
        (*lease).dry -= 1;
    }
    true
}

/// Refuses the next new sources of the lease's limit, until the next tick.
#[inline(always)]
fn exhaust(lease: *mut Lease) {
    // Without ticks, no event would end it.
    let dry = if constants().tick == 0 { 0 } else { DRY };
    // SAFETY: this CPU's own map value; see `lease`.
    unsafe {
        (*lease).dry = dry;
        (*lease).jiffy = clock::jiffy();
    }
}

/// True if the row has a token at `now` (nanoseconds), in its lease or in a new one.
#[inline(always)]
pub fn reserve(row: u32, now: u64) -> bool {
    if constants().new_sources.cost == 0 {
        return true;
    }
    let Some(lease) = lease(row) else {
        return false;
    };
    // SAFETY: this CPU's own map value.
    unsafe {
        if (*lease).tokens == 0 {
            (*lease).tokens = take_lease(row, now);
        }
        if (*lease).tokens == 0 {
            exhaust(lease);
            return false;
        }
    }
    true
}

/// Takes a token that [`reserve`] has found.
#[inline(always)]
pub fn take(row: u32) {
    if constants().new_sources.cost == 0 {
        return;
    }
    if let Some(lease) = lease(row) {
        // SAFETY: this CPU's own map value.
        unsafe { (*lease).tokens = (*lease).tokens.saturating_sub(1) };
    }
}

/// Takes the token of a source that finds no room in the table, so that a flood does not search it for each packet.
#[inline(always)]
pub fn waste(row: u32) {
    take(row);
    if let Some(lease) = lease(row) {
        exhaust(lease);
    }
}

/// Takes a lease from the buckets. Returns its tokens: a whole lease, 1, or 0. A global function, which the verifier
/// checks once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_lease(row: u32, now: u64) -> u64 {
    for _ in 0..ATTEMPTS {
        let tokens = lease_once(row, now);
        if tokens != LOST {
            return tokens;
        }
    }
    0
}

/// [`new_sources::lease_once`]. Returns tokens, or [`LOST`]. A separate function: inlined, LLVM would make a loop that
/// Linux 6.1 refuses ("back-edge").
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn lease_once(row: u32, now: u64) -> u64 {
    let (limit, bucket) = (constants().budget(row), (row / SLOTS % BUDGETS) as usize);
    let Some(table) = TABLE.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: an aligned word of a map value.
    let common = unsafe {
        let buckets = (&raw mut (*table).new_sources).cast::<u64>();
        Word::at(buckets.add(bucket))
    };
    // A single limit has no bucket of its own.
    let own = if limit.own_cost == 0 {
        common
    } else if let Some(share) = SHARES.get_ptr_mut(row % ROWS) {
        // SAFETY: an aligned field of a map value.
        unsafe { Word::at(&raw mut (*share).new_sources) }
    } else {
        return 0;
    };
    let present = || clock::present().unwrap_or(now);
    new_sources::lease_once(limit, common, own, now, present)
}
