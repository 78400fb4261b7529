//! The full path: lists, then all limits that match.

use limiter_common::{
    abi::counters::FULL_PATH,
    arithmetic::bucket::TICK_SHIFT,
    policy::{Evaluation, candidates::lowest, full, of_lists, verdict::Reason},
};

use crate::{
    connection,
    context::{self, Action, Context},
    counters::{self, Finish},
    engine::Kernel,
    packet::Cursor,
    watch,
};

/// The row of this path's counters.
pub const ROW: u32 = FULL_PATH;

pub use crate::log;

/// Decides about the packet, and ends with `finish`.
#[inline(always)]
pub fn decide(context: &Context, length: u64, finish: impl Finish) -> Action {
    let Some(kernel) = Kernel::new() else {
        return finish(context, length, Reason::Contended);
    };
    // SAFETY: the only reference of this function.
    let evaluation = unsafe { kernel.evaluation() };
    evaluation.begin(&kernel, length);
    let mut packet = Cursor::new(context);
    let read = full::read(&kernel, &mut packet, evaluation, || kernel.begin(context));
    let reason = match read {
        Ok(()) => full::evaluate(
            &kernel,
            evaluation,
            |evaluation| connection::is_connected(context, evaluation),
            |evaluation| connection::is_related(context, evaluation),
            |evaluation| context::prove(context, evaluation.refused_by, evaluation.refused),
        ),
        Err(reason) => limiter_common::policy::apply_shadow(&kernel, reason),
    };
    // The common reasons by themselves: what follows is compiled for each.
    match reason {
        reason if context::IN_STACK => show(context, evaluation, reason, finish),
        Reason::Limit => show(context, evaluation, Reason::Limit, finish),
        Reason::Admitted => show(context, evaluation, Reason::Admitted, finish),
        reason => show(context, evaluation, reason, finish),
    }
}

/// Delays the packet, shows it to who watches it, and finishes.
#[inline(always)]
fn show(context: &Context, evaluation: &Evaluation, reason: Reason, finish: impl Finish) -> Action {
    // A limit in shadow may have been over its rate, too.
    if context::IN_STACK && evaluation.delay != 0 && reason.passes() {
        let delay = (evaluation.delay - 1).div_ceil(1 << TICK_SHIFT);
        context::leave_at(context, evaluation.now + delay);
        if delay != 0 {
            counters::delayed(delay, evaluation.length);
        }
    }
    watch::emit(context, None, evaluation.length, reason, || {
        let (limit, limits) = if reason.passes() && !reason.would_drop() {
            (lowest(evaluation.charged), evaluation.charged)
        } else {
            evaluation.over()
        };
        (why(reason, evaluation), limit, limits)
    });
    finish(context, evaluation.length, reason)
}

/// Number of the reason why the packet passes or is dropped; in shadow, why it would be dropped.
#[inline(always)]
fn why(reason: Reason, evaluation: &Evaluation) -> u32 {
    match reason {
        Reason::WouldDrop => match of_lists(evaluation.lists) {
            Some(reason) => reason as u32,
            None => evaluation.refused,
        },
        Reason::MalformedWouldDrop => Reason::Malformed as u32,
        reason => reason as u32,
    }
}
