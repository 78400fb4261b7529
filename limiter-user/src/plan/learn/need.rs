//! What a trace needs of a bucket to lose nothing, and what it would lose, by the arithmetic that limits.

use limiter_common::arithmetic::bucket::{self, Decision, TAU_MAX};

use super::trace::Trace;

/// Times of a trace count from here on, in ticks: clear of the words that are no times.
const ORIGIN: u64 = 1 << 20;

/// The smallest burst, in packets, with which a bucket refusing nothing of `trace` refills at one packet for
/// each `cost` (ticks), however often the same traffic comes again, every `period` nanoseconds; none where it
/// sends more in the long run than the bucket refills, so that no burst would do.
///
/// Exact where the trace is; else never too small.
#[must_use]
pub fn burst(trace: &Trace, cost: u64, period: u64) -> Option<u64> {
    let per_period = trace.packets().checked_mul(cost)?;
    if per_period > period.checked_mul(1 << bucket::TICK_SHIFT)? {
        return None;
    }
    let first = trace.groups().first()?.time;
    let mut tat = ORIGIN;
    let mut deepest = 0;
    // In the second round the bucket is as deep as it will ever be: it starts where the first one has left it,
    // and that has been full at some moment.
    for round in 0..2 {
        for group in trace.groups() {
            let now = ORIGIN + bucket::ticks(round * period + (group.time - first));
            let cost = cost.checked_mul(group.packets)?;
            match bucket::decide(tat, now, cost, TAU_MAX) {
                Decision::Admit { tat: after } => tat = after,
                Decision::Refuse { .. } => return None,
            }
            deepest = deepest.max(bucket::spent(tat, now, TAU_MAX));
        }
    }
    // What came later than the trace says may find that much less refilled before it.
    let late = bucket::ticks(trace.spread());
    Some((deepest + late).div_ceil(cost))
}

/// Packets of `trace` that a bucket of `burst` packets, full at first, would refuse; nearly exact where the
/// trace is not.
#[must_use]
pub fn refused(trace: &Trace, cost: u64, burst: u64) -> u64 {
    let Some(first) = trace.groups().first().map(|group| group.time) else {
        return 0;
    };
    let tau = cost.saturating_mul(burst).min(TAU_MAX);
    let mut tat = ORIGIN;
    let mut refused = 0;
    for group in trace.groups() {
        let now = ORIGIN + bucket::ticks(group.time - first);
        let room = (tau - bucket::spent(tat, now, tau)) / cost;
        let admitted = group.packets.min(room);
        if let Decision::Admit { tat: after } = bucket::decide(tat, now, admitted * cost, tau) {
            tat = after;
        }
        refused += group.packets - admitted;
    }
    refused
}
