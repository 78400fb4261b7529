//! What becomes of a bucket when its limit's terms change: brought to the present ones by whoever meets
//! it next.

use limiter_common::bucket;

use crate::config;

/// A word that was written in `epoch`, on the terms of this program. Nothing where the epoch is later
/// than this program's, which has been replaced, and is at its last packets on this CPU.
#[inline(always)]
pub fn on_present(epoch: u32, tat: u64) -> Option<u64> {
    if epoch == config::epoch() {
        return Some(tat);
    }
    let word = carried_over(epoch, tat);
    bucket::is_time(word).then_some(word)
}

/// [`bucket::carry_over`] as a function of its own, which the verifier checks once instead of at every
/// turn of the loops that it is called from: that is what an exported symbol means to it (global
/// functions, Linux 5.6). [`bucket::RETIRED`] stands for nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn carried_over(epoch: u32, tat: u64) -> u64 {
    let behind = config::epoch().wrapping_sub(epoch);
    if behind.cast_signed() < 0 {
        return bucket::RETIRED;
    }
    bucket::carry_over(tat, behind, config::past_length(), config::past).unwrap_or(bucket::RETIRED)
}
