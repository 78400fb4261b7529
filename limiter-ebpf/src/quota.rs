//! Converts TATs on a past quota of their limit.
//!
//! The verifier checks the exported functions once, instead of in each iteration of the loops that call them.

use limiter_common::{
    arithmetic::{bucket, rescale},
    policy::Limit as _,
    table::entry,
};

use crate::config;

/// Converts a TAT of `epoch` to the present quota of the limit with this index. None if the epoch is later than this
/// program's: another program has replaced this one, which decides about its last packets on this CPU.
#[inline(always)]
pub fn on_present(index: u32, epoch: u32, tat: u64) -> Option<u64> {
    if epoch == config::limit(index)?.epoch() {
        return Some(tat);
    }
    let tat = carried_over(index, epoch, tat);
    bucket::is_time(tat).then_some(tat)
}

/// [`rescale::carry_over`]. Returns a TAT; [`bucket::FREE`] stands for none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn carried_over(index: u32, epoch: u32, tat: u64) -> u64 {
    let Some(limit) = config::limit(index) else {
        return bucket::FREE;
    };
    let behind = limit.epoch().wrapping_sub(epoch);
    if behind.cast_signed() < 0 {
        return bucket::FREE;
    }
    rescale::carry_over(tat, behind, limit.past_length(), |i| limit.past(i)).unwrap_or(bucket::FREE)
}

/// Nanoseconds since the bucket of an entry with these words became full, plus one. 0 if it is not full at `now`
/// (nanoseconds); `u64::MAX` if its limit is gone.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn full_for(over: u64, tat: u64, now: u64) -> u64 {
    let index = config::index_of(entry::slot_in(over));
    let Some((index, limit)) = index.and_then(|index| Some((index, config::limit(index)?))) else {
        return u64::MAX;
    };
    let epoch = entry::epoch_in(over, limit.epoch());
    let full_for = on_present(index, epoch, tat).and_then(|tat| limit.quota().full_for(tat, now));
    full_for.map_or(0, |nanoseconds| nanoseconds.saturating_add(1))
}
