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

/// [`limiter_common::table::SharedTable::full_for`].
#[inline(always)]
pub fn full_for(over: u64, tat: u64, now: u64) -> Option<u64> {
    let Some((index, limit)) = constants().limit_in(entry::slot_in(over)) else {
        return Some(u64::MAX);
    };
    let tat = on_present(index, entry::epoch_in(over, limit.epoch), tat)?;
    limit.quota.full_for(tat, now)
}

/// [`limiter_common::table::SharedTable::is_quiet`] of a bucket on the present quota: 1 or 0. A separate function: inlined,
/// LLVM leaves out a bounds check that Linux 6.1 requires.
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
