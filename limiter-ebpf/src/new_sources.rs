//! The new-source limit in maps: its buckets, and what each CPU has leased of them.

use limiter_common::{
    abi::Lease,
    policy::new_sources::{self, ATTEMPTS, LOST, Word},
    table::key::SLOTS,
};

use crate::{
    atomic, clock, config,
    maps::{LEASES, SHARES, TABLE},
    room,
};

/// New sources that are refused without a look at the buckets, once they have turned one away: a flood reads
/// neither the clock nor what other CPUs write to. Until the next tick at most.
const DRY: u64 = 16;

/// This CPU's lease for the limit in `slot`.
#[inline(always)]
fn lease(slot: u32) -> Option<*mut Lease> {
    LEASES.get_ptr_mut(slot)
}

/// Whether the limit in `slot` has just turned a new source away, and this one is, too.
#[inline(always)]
pub fn is_out(slot: u32) -> bool {
    if config::new_sources().cost == 0 && !room::is_shared() {
        return false;
    }
    let Some(lease) = lease(slot) else {
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

/// Lets the next new sources of the limit in `slot` be refused, up to the next tick.
#[inline(always)]
fn dry_up(lease: *mut Lease) {
    // Without ticks nothing would end it.
    let dry = if config::tick() == 0 { 0 } else { DRY };
    // SAFETY: this CPU's own map value; see `lease`.
    unsafe {
        (*lease).dry = dry;
        (*lease).jiffy = clock::jiffy();
    }
}

/// Whether the lease of the limit in `slot` has a token at `now` (nanoseconds), or a new one has.
#[inline(always)]
pub fn reserve(slot: u32, now: u64) -> bool {
    if config::new_sources().cost == 0 {
        return true;
    }
    let Some(lease) = lease(slot) else {
        return false;
    };
    // SAFETY: this CPU's own map value.
    unsafe {
        if (*lease).tokens == 0 {
            (*lease).tokens = take_lease(slot, now);
        }
        if (*lease).tokens == 0 {
            dry_up(lease);
            return false;
        }
    }
    true
}

/// Takes the token that [`reserve`] has found.
#[inline(always)]
pub fn take(slot: u32) {
    if config::new_sources().cost == 0 {
        return;
    }
    if let Some(lease) = lease(slot) {
        // SAFETY: this CPU's own map value.
        unsafe { (*lease).tokens = (*lease).tokens.saturating_sub(1) };
    }
}

/// Takes the token of a source that finds no room in the table, so that not each of a flood looks for some.
#[inline(always)]
pub fn waste(slot: u32) {
    take(slot);
    if let Some(lease) = lease(slot) {
        dry_up(lease);
    }
}

/// Takes a lease from the buckets. Returns its tokens: a single one if there are not so many, or 0. A function of
/// its own, so that the verifier checks it once (a global function, Linux 5.6).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_lease(slot: u32, now: u64) -> u64 {
    for _ in 0..ATTEMPTS {
        let tokens = lease_once(slot, now);
        if tokens != LOST {
            return tokens;
        }
    }
    0
}

/// [`policy::new_sources::lease_once`]. Returns tokens, or [`LOST`]. Apart from the loop: LLVM would have the loop's
/// last instruction run into its first one, which Linux 6.1 refuses ("back-edge").
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn lease_once(slot: u32, now: u64) -> u64 {
    let limit = config::new_sources();
    let Some(table) = TABLE.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: a field of a map value.
    let common = unsafe { &raw mut (*table).new_sources };
    // One limit has no bucket of its own.
    let own = if limit.own_cost == 0 {
        common
    } else if let Some(share) = SHARES.get_ptr_mut(slot % SLOTS) {
        // SAFETY: as above.
        unsafe { &raw mut (*share).new_sources }
    } else {
        return 0;
    };
    new_sources::lease_once(&limit, Tat(common), Tat(own), now, clock::now)
}

/// The TAT of a bucket of new sources, in a map value.
#[derive(Clone, Copy)]
struct Tat(*mut u64);

impl Word for Tat {
    #[inline(always)]
    fn load(self) -> u64 {
        // SAFETY: a field of a map value, aligned.
        unsafe { atomic::load(self.0) }
    }

    #[inline(always)]
    fn swap(self, expected: u64, new: u64) -> bool {
        // SAFETY: as above.
        unsafe { atomic::compare_and_swap(self.0, expected, new) == expected }
    }
}
