//! The policy in user space as one function, for valgrind to count.
//!
//! A package of its own, because cargo optimizes packages: optimizing all of limiter-user takes 80 s.

#[path = "../../../limiter-user/src/plan/replay/model/mod.rs"]
mod model;

use limiter_common::policy::verdict::Reason;
pub use model::Model;

/// Decides about a frame. valgrind counts what is done in here.
#[inline(never)]
pub fn decide(model: &mut Model, frame: &[u8], now: u64) -> Reason {
    model.offer(frame, frame.len() as u64, now)
}
