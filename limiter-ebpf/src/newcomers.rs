//! The newcomer limit: how fast new buckets are made, whoever sends. A flood of spoofed sources meets
//! this before it meets the table.

use limiter_common::{
    bucket::{self, Decision, SKEW_MAX},
    layout::Cpu,
    rules::LIMITS_MAX,
};

use crate::maps::{CPUS, TABLE};
use crate::{atomic, clock, config};

/// Losing this often means that other CPUs took tokens as often.
const ATTEMPTS: u32 = 4;

/// New sources that are refused without a look at the bucket, once it has turned one away: a flood reads
/// neither the clock nor what other CPUs write to. Until the next tick at most.
const DRY: u64 = 16;

/// Whether the limit has just turned a new source away, and this one is, too.
#[inline(always)]
pub fn are_out() -> bool {
    if config::newcomers().cost == 0 {
        return false;
    }
    let Some(cpu) = CPUS.get_ptr_mut(0) else {
        return true;
    };
    // SAFETY: this CPU's own map value.
    unsafe {
        if (*cpu).dry == 0 {
            return false;
        }
        (*cpu).dry -= 1;
    }
    true
}

/// Lets the next new sources be refused, up to the next tick.
///
/// # Safety
/// `cpu` is this CPU's own map value.
#[inline(always)]
unsafe fn dry_up(cpu: *mut Cpu) {
    // Without ticks nobody would end it.
    let dry = if config::tick() == 0 { 0 } else { DRY };
    // SAFETY: the caller vouches for it.
    unsafe { (*cpu).dry = dry };
}

/// Whether one more bucket may be made at `now` (nanoseconds): takes a token of this CPU's lease, or a
/// new lease.
#[inline(always)]
pub fn admit(now: u64) -> bool {
    let limit = config::newcomers();
    if limit.cost == 0 {
        return true;
    }
    let Some(cpu) = CPUS.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: this CPU's own map value.
    unsafe {
        if (*cpu).lease > 0 {
            (*cpu).lease -= 1;
            return true;
        }
        let taken = take_lease(now);
        if taken == 0 {
            dry_up(cpu);
            return false;
        }
        (*cpu).lease = taken - 1;
    }
    true
}

/// Whether `buckets` more may be made at `now` (nanoseconds): sees to it that this CPU's lease has so many
/// tokens, and leaves them there. What there is of them stays for the next packet.
#[inline(always)]
pub fn reserve(now: u64, buckets: u32) -> bool {
    lease_reserve(now, buckets) != 0
}

/// Turns of the loop: each brings one token at least.
const TRIES: u32 = LIMITS_MAX + 1;

/// Whether the lease has so many tokens, or there are no more to be had; nothing where it has got some.
///
/// # Safety
/// `cpu` is this CPU's own map value.
#[inline(always)]
unsafe fn reserve_more(cpu: *mut Cpu, now: u64, buckets: u32) -> Option<u32> {
    // SAFETY: the caller vouches for it.
    unsafe {
        if (*cpu).lease >= buckets as u64 {
            return Some(1);
        }
        let taken = take_lease(now);
        if taken == 0 {
            if (*cpu).lease == 0 {
                dry_up(cpu);
            }
            return Some(0);
        }
        (*cpu).lease += taken;
    }
    None
}

/// A function of its own, so that the verifier checks the loop once.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn lease_reserve(now: u64, buckets: u32) -> u32 {
    if config::newcomers().cost == 0 {
        return 1;
    }
    let Some(cpu) = CPUS.get_ptr_mut(0) else {
        return 0;
    };
    for _ in 0..TRIES {
        // SAFETY: this CPU's own map value.
        if let Some(reserved) = unsafe { reserve_more(cpu, now, buckets) } {
            return reserved;
        }
    }
    0
}

/// Takes a lease from the bucket; a single token where there are not so many, or none. A function of its
/// own, so that the verifier checks it once (a global function, Linux 5.6).
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn take_lease(now: u64) -> u64 {
    let limit = config::newcomers();
    let Some(table) = TABLE.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: a field of a map value.
    let word = unsafe { &raw mut (*table).newcomers };
    let nanoseconds = now;
    let now = bucket::ticks(now);
    for _ in 0..ATTEMPTS {
        // SAFETY: as above.
        let tat = unsafe { atomic::load(word) };
        let (tokens, after) = match bucket::decide(tat, now, limit.cost * limit.lease, limit.tau) {
            Decision::Admit { tat } => (limit.lease, tat),
            Decision::Refuse { .. } => match bucket::decide(tat, now, limit.cost, limit.tau) {
                Decision::Admit { tat } => (1, tat),
                Decision::Refuse { .. } => match corrected(tat, nanoseconds, limit.tau) {
                    Some(corrected) => (0, corrected),
                    None => return 0,
                },
            },
        };
        // SAFETY: as above.
        if unsafe { atomic::compare_and_swap(word, tat, after) } == tat {
            return tokens;
        }
    }
    0
}

/// The word in the place of one that a clock which was set back has left far ahead. The clock is read again,
/// after the word, as for the bucket of a source: this CPU may have been stopped between the two.
#[inline(always)]
fn corrected(tat: u64, nanoseconds: u64, tau: u64) -> Option<u64> {
    bucket::corrected(tat, bucket::ticks(nanoseconds), tau, SKEW_MAX)?;
    bucket::corrected(tat, bucket::ticks(clock::now()), tau, SKEW_MAX)
}
