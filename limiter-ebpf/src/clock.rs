//! The time, in nanoseconds of the kernel's monotonic clock: cheap bounds, and the clock itself, which costs more than
//! all other work on a packet.
//!
//! A reading of the clock is a lower bound of the time. While `jiffies` has not changed, it also gives an upper bound.
//! Most packets of a flood are refused at both bounds, so that the exact time does not matter.

use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns};
use limiter_common::{
    abi::{CLOCK_PACKET, Cpu},
    policy::TimeBounds,
};

use crate::{
    constants,
    context::{self, Context},
    maps::{CPUS, State},
};

/// Packets that use one reading at most. A late tick (a virtual CPU may be stopped for milliseconds) makes the upper
/// bound too low; this bounds how many packets are refused because of it.
const USES: u64 = 64;

/// Ticks from a reading to its upper bound: one until the next tick, and one by which that tick may be late.
const TICKS: u64 = 2;

/// Prepares [`time_bounds`] and [`now`] for a packet. Called once per packet.
///
/// # Safety
/// `cpu` is this CPU's own map value.
#[inline(always)]
pub unsafe fn begin(context: &Context, cpu: *mut Cpu) {
    // Asked first: packets that have their own time have no ticks, and a program with ticks asks nothing else.
    if constants().tick == 0 {
        if constants().clock == CLOCK_PACKET
            && let Some(stamp) = context::stamp(context)
        {
            // SAFETY: the map value is this CPU's own.
            unsafe {
                let now = stamp.nanoseconds;
                let uncertainty = stamp.uncertainty as u64;
                (*cpu).earliest = now.saturating_sub(uncertainty);
                (*cpu).latest = now.saturating_add(uncertainty);
                (*cpu).jiffy = now;
            }
        }
        return;
    }
    // SAFETY: this CPU's own map value; the helper has no preconditions.
    unsafe {
        let jiffy = bpf_jiffies64();
        if (*cpu).jiffy != jiffy {
            (*cpu).jiffy = jiffy;
            read(cpu);
        } else if (*cpu).uses == 0 {
            read(cpu);
        } else {
            (*cpu).uses -= 1;
        }
    }
}

/// True if this program's trial is over, by the precise clock.
#[inline(always)]
pub fn is_past_deadline() -> bool {
    let deadline = constants().deadline;
    // SAFETY: the helper has no preconditions.
    deadline != 0 && unsafe { bpf_ktime_get_ns() } >= deadline
}

/// `jiffies` as this CPU read them last.
#[inline(always)]
pub fn jiffy() -> u64 {
    // SAFETY: this CPU's own map value.
    of_this_cpu().map_or(0, |state| unsafe { (*state).clock.jiffy })
}

/// The bounds of the time. None if the length of a tick is not known.
///
/// # Safety
/// `cpu` is this CPU's own map value.
#[inline(always)]
pub unsafe fn time_bounds(cpu: *const Cpu) -> Option<TimeBounds> {
    if constants().tick == 0 && constants().clock != CLOCK_PACKET {
        return None;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        Some(TimeBounds {
            earliest: (*cpu).earliest,
            latest: (*cpu).latest,
        })
    }
}

/// The present time: the kernel's clock, or the packet's stamp in tests and replay.
///
/// # Safety
/// `cpu` is this CPU's own map value.
#[inline(always)]
pub unsafe fn now(cpu: *mut Cpu) -> u64 {
    // SAFETY: the caller vouches for the pointer; the helper has no preconditions.
    unsafe {
        if constants().tick != 0 {
            read(cpu)
        } else if constants().clock == CLOCK_PACKET {
            (*cpu).jiffy
        } else {
            bpf_ktime_get_ns()
        }
    }
}

/// A time at most a tick ago, without a reading of the clock if there are ticks.
#[inline(always)]
pub fn recent() -> u64 {
    if constants().clock != CLOCK_PACKET && constants().tick == 0 {
        // SAFETY: the helper has no preconditions.
        return unsafe { bpf_ktime_get_ns() };
    }
    // SAFETY: this CPU's own map value.
    of_this_cpu().map_or(0, |state| unsafe {
        if constants().clock == CLOCK_PACKET {
            (*state).clock.jiffy
        } else {
            (*state).clock.earliest
        }
    })
}

/// The present time, for callers without this CPU's state at hand.
#[inline(always)]
pub fn present() -> Option<u64> {
    // SAFETY: this CPU's own map value.
    of_this_cpu().map(|state| unsafe { now(&raw mut (*state).clock) })
}

/// # Safety
/// `cpu` is this CPU's own map value.
#[inline(always)]
unsafe fn read(cpu: *mut Cpu) -> u64 {
    let tick = constants().tick;
    // SAFETY: the caller vouches for the pointer; the helper has no preconditions.
    unsafe {
        let now = bpf_ktime_get_ns();
        (*cpu).earliest = now;
        (*cpu).latest = now + TICKS * tick;
        (*cpu).uses = USES;
        now
    }
}

/// This CPU's state.
#[inline(always)]
pub fn of_this_cpu() -> Option<*mut State> {
    CPUS.get_ptr_mut(0)
}
