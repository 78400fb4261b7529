//! Per-CPU counters of the interface and of its limits. The counters of a source are in its [`crate::entry`].

use core::mem::offset_of;

use limiter_common::{
    abi::{
        counters::{Count, Counters, DELAYS, FAST_PATH, LimitCounters, delay_bound},
        rules::{PROVEN, SECOND},
    },
    arithmetic::size,
    policy::verdict::Reason,
};

use crate::{
    context::{Action, Context},
    maps::{COUNTED, LIMITS, LIST_HITS},
};

/// The counters of this CPU that have the numbers of sources, for both paths.
#[inline(always)]
fn of_this_cpu() -> Option<*mut Counters> {
    COUNTED.get_ptr_mut(FAST_PATH)
}

/// # Safety
/// `count` is in this CPU's own map value.
#[inline(always)]
unsafe fn add(count: *mut Count, size: u64) {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        (*count).packets = (*count).packets.wrapping_add(size::packets(size));
        (*count).bytes = (*count).bytes.wrapping_add(size::bytes(size));
    }
}

/// Counts one packet for the limit in `slot`.
#[inline(always)]
pub fn count_limit(slot: u32, reason: Reason, length: u64) {
    if let Some(counters) = LIMITS.get_ptr_mut(slot) {
        let place = if reason.would_drop() {
            offset_of!(LimitCounters, would_drop)
        } else if reason.passes() {
            offset_of!(LimitCounters, admitted)
        } else {
            offset_of!(LimitCounters, dropped)
        };
        // SAFETY: a field of this CPU's own map value, which nothing else writes.
        unsafe { add(counters.byte_add(place).cast::<Count>(), length) };
    }
}

/// Uncounts a packet that the limit in `slot` had admitted.
#[inline(always)]
pub fn uncount_limit(slot: u32, length: u64) {
    if let Some(counters) = LIMITS.get_ptr_mut(slot) {
        // SAFETY: this CPU's own map value.
        unsafe {
            let count = &raw mut (*counters).admitted;
            (*count).packets = (*count).packets.wrapping_sub(size::packets(length));
            (*count).bytes = (*count).bytes.wrapping_sub(size::bytes(length));
        }
    }
}

/// Counts one packet from a source on `list`. Returns the number of packets that this CPU had counted for the list.
#[inline(always)]
pub fn count_hit(list: u32, length: u64) -> u64 {
    let Some(count) = LIST_HITS.get_ptr_mut(list) else {
        return 0;
    };
    // SAFETY: this CPU's own map value, which nothing else writes.
    unsafe {
        let before = (*count).packets;
        add(count, length);
        before
    }
}

/// The end of a program, after the decision about a packet of this size: a function.
pub trait Finish: Fn(&Context, u64, Reason) -> Action {}

impl<F: Fn(&Context, u64, Reason) -> Action> Finish for F {}

/// Counts one packet under its reason, in the row of its path.
#[inline(always)]
pub fn count(row: u32, reason: Reason, length: u64) {
    if let Some(counters) = COUNTED.get_ptr_mut(row) {
        let index = match reason {
            Reason::Limit => Reason::Limit as u64,
            Reason::Admitted => Reason::Admitted as u64,
            reason => {
                let mut index = reason as u64;
                // SAFETY: does nothing. It hides the value from LLVM, which would remove the bounds check that Linux 6.1
                // requires.
                unsafe { core::arch::asm!("{0} = {0}", inout(reg) index, options(nostack)) };
                if index >= Reason::ALL.len() as u64 {
                    return;
                }
                index
            }
        };
        // SAFETY: a field of this CPU's own map value, which nothing else writes.
        unsafe {
            let count = (&raw mut (*counters).by_reason).cast::<Count>();
            let count = count.add(index as usize);
            add(count, length);
        }
    }
}

/// Counts one more in the field that `field` returns.
#[inline(always)]
pub fn one_more(field: impl FnOnce(&mut Counters) -> &mut u64) {
    if let Some(counters) = of_this_cpu() {
        // SAFETY: this CPU's own map value, which nothing else writes.
        unsafe { *field(&mut *counters) += 1 };
    }
}

/// Counts a source that was admitted by second chance or by proof.
#[inline(always)]
pub fn taken(budget: u32) {
    if let Some(counters) = of_this_cpu() {
        // SAFETY: this CPU's own map value.
        unsafe {
            match budget {
                SECOND => (*counters).second_chances += 1,
                PROVEN => (*counters).proven += 1,
                _ => {}
            }
        }
    }
}

/// Counts the packets of this size that leave `delay` nanoseconds late.
#[inline(always)]
pub fn delayed(delay: u64, size: u64) {
    if let Some(counters) = of_this_cpu() {
        let (packets, mut index) = (size::packets(size), 0);
        for bound in 0..DELAYS - 1 {
            index += usize::from(delay >= delay_bound(bound));
        }
        // SAFETY: this CPU's own map value.
        unsafe {
            (*counters).delayed += delay * packets;
            let delays = (&raw mut (*counters).delays).cast::<u64>();
            *delays.add(index % DELAYS) += packets;
        }
    }
}
