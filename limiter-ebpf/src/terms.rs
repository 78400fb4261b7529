//! What becomes of a bucket when its limit's terms change: brought to the present ones by whoever meets
//! it next.
//!
//! The exported functions are checked once by the verifier, instead of at every turn of the loops that
//! they are called from: that is what an exported symbol means to it (global functions, Linux 5.6).

use limiter_common::{bucket, rescale};

use crate::config::{self, Limit};

/// A word that was written in `epoch`, on the present terms of the limit with this index. Nothing where
/// the epoch is later than this program's, which has been replaced, and is at its last packets on this
/// CPU.
#[inline(always)]
pub fn on_present(index: u32, epoch: u32, word: u64) -> Option<u64> {
    if epoch == config::limit(index)?.epoch() {
        return Some(word);
    }
    let word = carried_over(index, epoch, word);
    bucket::is_time(word).then_some(word)
}

/// [`rescale::carry_over`]; [`bucket::RETIRED`] stands for nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn carried_over(index: u32, epoch: u32, word: u64) -> u64 {
    let Some(limit) = config::limit(index) else {
        return bucket::RETIRED;
    };
    carry_over(limit, epoch, word).unwrap_or(bucket::RETIRED)
}

/// 1 where forgetting a bucket of the limit in this slot loses nothing: it is full at `now`
/// (nanoseconds), or the limit has gone. `word` is a time or a window's word.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn may_be_forgotten(slot: u32, epoch: u32, word: u64, now: u64) -> u32 {
    let Some(index) = config::index_of(slot) else {
        return 1;
    };
    let Some(limit) = config::limit(index) else {
        return 1;
    };
    match carry_over(limit, epoch, word) {
        Some(word) => limit.terms().is_full(word, now).into(),
        None => 0,
    }
}

#[inline(always)]
fn carry_over(limit: Limit, epoch: u32, word: u64) -> Option<u64> {
    let behind = limit.epoch().wrapping_sub(epoch);
    if behind == 0 {
        return Some(word);
    }
    if behind.cast_signed() < 0 {
        return None;
    }
    rescale::carry_over(word, behind, limit.past_length(), |i| limit.past(i))
}
