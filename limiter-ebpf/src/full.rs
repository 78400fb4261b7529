//! The full path: lists, then all limits that match.

use aya_ebpf::programs::XdpContext;
use limiter_common::{
    abi::{counters::FULL, rules::ON_DENY},
    policy::{Evaluation, full, verdict::Reason},
};

use crate::{clock, config::Kernel, connection, maps::PACKET, packet::Cursor, watch};

/// The row of this path's counters.
pub const ROW: u32 = FULL;

/// Decides about the packet.
#[inline(always)]
pub fn decide(context: &XdpContext, length: u64) -> Reason {
    let Some(evaluation) = PACKET.get_ptr_mut(0) else {
        return Reason::Contended;
    };
    // SAFETY: this CPU's own map value, which nothing else uses while the program runs.
    let evaluation = unsafe { &mut *evaluation };
    evaluation.begin(length);
    let mut packet = Cursor::new(context);
    let read = full::read(&Kernel, &mut packet, evaluation, || clock::begin(context));
    let reason = match read {
        Ok(()) => full::evaluate(&Kernel, evaluation, |evaluation| {
            connection::is_connected(context, evaluation)
        }),
        Err(reason) => limiter_common::policy::apply_shadow(&Kernel, reason),
    };
    let (limit, limits) = evaluation.over();
    let why = why(reason, evaluation);
    watch::emit(context, evaluation.length, reason, why, limit, limits);
    reason
}

/// Number of the reason why the packet is dropped, or would be dropped without shadow.
#[inline(always)]
fn why(reason: Reason, evaluation: &Evaluation) -> u32 {
    match reason {
        Reason::WouldDrop if evaluation.lists & ON_DENY != 0 => Reason::Deny as u32,
        Reason::WouldDrop => evaluation.refused,
        Reason::MalformedWouldDrop => Reason::Malformed as u32,
        reason => reason as u32,
    }
}
