//! The new-source limit: how fast new buckets are made. A flood of spoofed sources meets this before it meets the
//! table.

use crate::{abi::rules::NewSourceQuota, arithmetic::bucket, table::share::Step};

/// Losing this often means that other CPUs took tokens as often.
pub const ATTEMPTS: u32 = 4;

/// Returned by [`lease_once`] if another CPU was faster, or a TAT was corrected: try again.
pub const LOST: u64 = u64::MAX;

/// A word that several CPUs write.
pub trait Word: Copy {
    /// Reads it.
    fn load(self) -> u64;
    /// Writes `new` if the word still is `expected`. Returns whether it was.
    fn swap(self, expected: u64, new: u64) -> bool;
}

/// Tries once to take a lease at `now` (nanoseconds) from the bucket `common` to all limits, or from a limit's `own`,
/// which is the same if there is one limit. `clock` reads the time. Returns the tokens of the lease, or [`LOST`].
#[inline(always)]
pub fn lease_once<W: Word>(
    limit: &NewSourceQuota,
    common: W,
    own: W,
    now: u64,
    clock: impl Fn() -> u64,
) -> u64 {
    let (of_all, of_limit) = (common.load(), own.load());
    match limit.take(of_all, of_limit, bucket::ticks(now)) {
        Step::Common { tokens, tat } => {
            if common.swap(of_all, tat) {
                return tokens;
            }
        }
        Step::Own { tokens, tat } => {
            if own.swap(of_limit, tat) {
                return owe(limit, common, now, tokens);
            }
        }
        Step::Nothing => {
            if !correct(limit, common, own, now, clock) {
                return 0;
            }
        }
    }
    LOST
}

/// Charges the common bucket with tokens that a limit's own bucket has given. Returns their number, or 0 on failure,
/// which errs towards refusing.
#[inline(always)]
fn owe<W: Word>(limit: &NewSourceQuota, common: W, now: u64, tokens: u64) -> u64 {
    for _ in 0..ATTEMPTS {
        let before = common.load();
        if common.swap(before, limit.owed(before, bucket::ticks(now), tokens)) {
            return tokens;
        }
    }
    0
}

/// Corrects TATs that a clock which was set back has left far ahead. Returns whether one was. The clock is read
/// again, after the TAT, as for the bucket of a source: this CPU may have been stopped between the two.
#[inline(always)]
fn correct<W: Word>(
    limit: &NewSourceQuota,
    common: W,
    own: W,
    now: u64,
    clock: impl Fn() -> u64,
) -> bool {
    let ticks = bucket::ticks(now);
    let (of_all, of_limit) = (common.load(), own.load());
    if limit.corrected(of_all, ticks).is_some()
        && let Some(corrected) = limit.corrected(of_all, bucket::ticks(clock()))
    {
        return common.swap(of_all, corrected);
    }
    if limit.own_cost != 0
        && limit.own_corrected(of_limit, ticks).is_some()
        && let Some(corrected) = limit.own_corrected(of_limit, bucket::ticks(clock()))
    {
        return own.swap(of_limit, corrected);
    }
    false
}
