//! Figures of the interface, counted by each CPU for itself. Those of a source are in its
//! [`crate::entry`].

use limiter_common::{
    counters::{Count, Counters},
    verdict::Reason,
};

use crate::maps::COUNTERS;

#[inline(always)]
fn of_this_cpu() -> Option<*mut Counters> {
    COUNTERS.get_ptr_mut(0)
}

/// Counts one packet under its reason.
#[inline(always)]
pub fn count(reason: Reason, length: u64) {
    if let Some(counters) = of_this_cpu() {
        // SAFETY: a field of this CPU's own map value, which nothing else writes.
        unsafe {
            let count = (&raw mut (*counters).by_reason)
                .cast::<Count>()
                .add(reason as usize);
            (*count).packets += 1;
            (*count).bytes += length;
        }
    }
}

/// A source was taken into the table.
#[inline(always)]
pub fn source_added() {
    if let Some(counters) = of_this_cpu() {
        // SAFETY: as in `count`.
        unsafe { (*counters).sources_added += 1 };
    }
}

/// A source was forgotten, because its bucket was full.
#[inline(always)]
pub fn source_removed() {
    if let Some(counters) = of_this_cpu() {
        // SAFETY: as in `count`.
        unsafe { (*counters).sources_removed += 1 };
    }
}
