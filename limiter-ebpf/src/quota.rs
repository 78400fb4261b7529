//! Converts TATs on a past quota of their limit.
//!
//! The verifier checks the exported functions once, instead of in each iteration of the loops that call them.

use limiter_common::{
    arithmetic::bucket,
    table::{entry, key::SLOTS},
};

use crate::{constants, maps::SCALES};

/// [`limiter_common::abi::rules::Limit::on_present`] of the limit with this index.
#[inline(always)]
pub fn on_present(index: u32, epoch: u32, tat: u64) -> Option<u64> {
    if epoch == constants().limit(index)?.epoch {
        return Some(tat);
    }
    let tat = carried_over(index, epoch, tat);
    bucket::is_time(tat).then_some(tat)
}

/// [`on_present`]. Returns a TAT; [`bucket::FREE`] stands for none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn carried_over(index: u32, epoch: u32, tat: u64) -> u64 {
    let limit = constants().limit(index);
    limit
        .and_then(|limit| limit.on_present(epoch, tat))
        .unwrap_or(bucket::FREE)
}

/// The [`limiter_common::arithmetic::scale`] of the limit in `slot`.
#[inline(always)]
pub fn scale(slot: u32) -> u64 {
    let word: Option<*mut u64> = SCALES.get_ptr_mut(slot % SLOTS);
    // SAFETY: an aligned word of a map value, read once.
    word.map_or(0, |word| unsafe { word.read_volatile() })
}

/// Nanoseconds since the bucket of an entry with these words became full, plus one. 0 if it is not full at `now`
/// (nanoseconds); `u64::MAX` if its limit is gone.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn full_for(over: u64, tat: u64, now: u64) -> u64 {
    let Some((index, limit)) = constants().limit_in(entry::slot_in(over)) else {
        return u64::MAX;
    };
    let epoch = entry::epoch_in(over, limit.epoch);
    let full_for = on_present(index, epoch, tat).and_then(|tat| limit.quota.full_for(tat, now));
    full_for.map_or(0, |nanoseconds| nanoseconds.saturating_add(1))
}

/// [`limiter_common::arithmetic::quota::Quota::is_quiet`] of a bucket on the present quota: 1 or 0.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn is_quiet(over: u64, tat: u64, packets: u64, now: u64) -> u32 {
    match constants().limit_in(entry::slot_in(over)) {
        Some((_, limit)) if entry::epoch_in(over, limit.epoch) == limit.epoch => {
            limit.quota.is_quiet(tat, packets, now).into()
        }
        _ => 0,
    }
}
