//! What becomes of a bucket when its limit's terms change: brought to the present ones by whoever meets
//! it next.
//!
//! The exported functions are checked once by the verifier, instead of at every turn of the loops that
//! they are called from: that is what an exported symbol means to it (global functions, Linux 5.6).

use limiter_common::{
    arithmetic::{bucket, rescale},
    policy::Limit as _,
    table::entry,
};

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

/// [`rescale::carry_over`]; [`bucket::FREE`] stands for nothing.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn carried_over(index: u32, epoch: u32, word: u64) -> u64 {
    let Some(limit) = config::limit(index) else {
        return bucket::FREE;
    };
    carry_over(limit, epoch, word).unwrap_or(bucket::FREE)
}

/// For how many nanoseconds the bucket of an entry with these words has been full at `now` (nanoseconds),
/// and one more; 0 where it is not. For ever, where its limit has gone. `word` is a time or a window's
/// word.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn full_for(over: u64, word: u64, now: u64) -> u64 {
    let Some(limit) = config::index_of(entry::slot_in(over)).and_then(config::limit) else {
        return u64::MAX;
    };
    let epoch = entry::epoch_in(over, limit.epoch());
    let full_for =
        carry_over(limit, epoch, word).and_then(|word| limit.quota().full_for(word, now));
    full_for.map_or(0, |nanoseconds| nanoseconds.saturating_add(1))
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
