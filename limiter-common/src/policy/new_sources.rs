//! The new-source limit: how fast new buckets may be created. It protects the table from floods of spoofed sources.

use crate::{
    abi::rules::NewSourceQuota,
    arithmetic::bucket,
    table::{share::Step, word::Word},
};

/// Attempts to change a bucket of new-source tokens.
pub const ATTEMPTS: u32 = 4;

/// Returned by [`lease_once`] if another CPU was faster or a TAT was corrected. The caller must try again.
pub const LOST: u64 = u64::MAX;

/// Tries once to take a lease at `now` (nanoseconds) from the `common` bucket or the limit's `own`. With one limit,
/// both are the same bucket. `clock` reads the time. Returns the tokens of the lease, or [`LOST`].
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

/// Charges the common bucket with tokens from a limit's own bucket. Returns their number, or 0 on failure, which errs
/// towards refusing.
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

/// Corrects a TAT that is too far ahead because the clock was set back. Returns whether it did. The clock is read again
/// after the TAT, as in [`super::bucket::refresh`].
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
