//! The steps of [`super`], as functions that the verifier checks by themselves in the program for processes without `CAP_PERFMON` (global
//! functions, Linux 5.6; pointers to memory, 5.12): there it also follows the side of each branch that is not taken, and
//! would come to no end with all of them in one.

#[cfg(not(feature = "masked"))]
pub use super::{charge, classify, decide, weigh};
#[cfg(feature = "masked")]
pub use masked::{NO_REASON, charge, classify, decide, reason, weigh};

#[cfg(feature = "masked")]
mod masked {
    use limiter_common::verdict::Reason;

    use crate::{facts::Facts, limits};

    /// Says that there is no reason yet.
    pub const NO_REASON: u32 = u32::MAX;

    #[inline(always)]
    pub fn reason(number: u32) -> Option<Reason> {
        if number as usize >= Reason::ALL.len() {
            return None;
        }
        // SAFETY: the numbers below are those of the reasons, which are as long as this one.
        Some(unsafe { core::mem::transmute::<u32, Reason>(number) })
    }

    /// [`limits::classify`].
    #[inline(always)]
    pub fn classify(facts: &mut Facts) {
        limits_classify(&raw mut *facts);
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn limits_classify(facts: *mut Facts) -> u32 {
        // SAFETY: the caller's own, which the verifier has checked; it wants to see null checked.
        if let Some(facts) = unsafe { facts.as_mut() } {
            limits::classify(facts);
        }
        0
    }

    /// [`limits::decide`].
    #[inline(always)]
    pub fn decide(facts: &mut Facts) -> Reason {
        reason(limits_decide(&raw mut *facts)).unwrap_or(Reason::Contended)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn limits_decide(facts: *mut Facts) -> u32 {
        // SAFETY: as above.
        match unsafe { facts.as_mut() } {
            Some(facts) => limits::decide(facts) as u32,
            None => NO_REASON,
        }
    }

    /// [`limits::charge`].
    #[inline(always)]
    pub fn charge(facts: *mut Facts, index: u32) -> u32 {
        limits_charge(facts, index)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn limits_charge(facts: *mut Facts, index: u32) -> u32 {
        if facts.is_null() {
            return 0;
        }
        limits::charge(facts, index)
    }

    /// [`limits::weigh`].
    #[inline(always)]
    pub fn weigh(facts: *mut Facts, index: u32) -> u32 {
        limits_weigh(facts, index)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn limits_weigh(facts: *mut Facts, index: u32) -> u32 {
        if facts.is_null() {
            return 0;
        }
        limits::weigh(facts, index)
    }
}
