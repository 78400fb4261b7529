//! Figures: per CPU for the interface, and in its entry for each source.

use limiter_common::{
    counters::{Count, Counters},
    layout::Source,
    verdict::Reason,
};

use crate::atomic;
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
            let count = (&raw mut (*counters).by_reason).cast::<Count>().add(reason as usize);
            (*count).packets += 1;
            (*count).bytes += length;
        }
    }
}

/// Counts one packet in its source's entry, which several CPUs may share.
#[inline(always)]
pub fn count_source(source: *mut Source, reason: Reason, length: u64) {
    // SAFETY: fields of a map value; `Count` is two aligned words.
    unsafe {
        if reason.passes() {
            add(&raw mut (*source).passed, length);
        } else {
            add(&raw mut (*source).dropped, length);
        }
        if reason.would_drop() {
            add(&raw mut (*source).would_drop, length);
        }
    }
}

/// # Safety
/// `count` points into a map value.
#[inline(always)]
unsafe fn add(count: *mut Count, length: u64) {
    // SAFETY: the caller vouches for it.
    unsafe {
        atomic::add(&raw mut (*count).packets, 1);
        atomic::add(&raw mut (*count).bytes, length);
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
