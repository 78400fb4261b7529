//! Computes the bucket that a trace needs to lose nothing, and a bucket's losses, by the limiter's arithmetic.

use limiter_common::arithmetic::bucket::{self, Decision, TAU_MAX};

use super::trace::Trace;

/// Origin of a trace's times, in ticks: clear of the TATs with a special meaning.
const ORIGIN: u64 = 1 << 20;

/// The smallest burst, in packets, with which a bucket refuses nothing of `trace`. The bucket refills one packet per
/// `cost` (ticks). The traffic repeats every `period` nanoseconds without end. None if the traffic exceeds the refill
/// in the long run, so that no burst is enough.
///
/// Exact if the trace is exact, otherwise never too small.
pub fn burst(trace: &Trace, cost: u64, period: u64) -> Option<u64> {
    let per_period = trace.packets().checked_mul(cost)?;
    if per_period > period.checked_mul(1 << bucket::TICK_SHIFT)? {
        return None;
    }
    let first = trace.groups().first()?.time;
    let mut tat = ORIGIN;
    let mut deepest = 0;
    // The second round reaches the greatest depth: it starts where the first round ended, and the bucket has been full
    // at some moment.
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
    // Packets may arrive later than the trace says. Then the bucket may have refilled that much less.
    let late = bucket::ticks(trace.spread());
    Some((deepest + late).div_ceil(cost))
}

/// Packets of `trace` that a bucket of `burst` packets, full at first, would refuse. Nearly exact if the trace is not
/// exact.
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
