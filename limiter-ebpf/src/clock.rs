//! The time, in nanoseconds of the kernel's monotonic clock: bounds that cost next to nothing, and the clock itself,
//! which costs more than all other work on a packet.
//!
//! A reading of the clock is a lower bound of the time for good, and an upper bound as long as `jiffies` has not gone
//! up since. Most packets of a flood are refused at either bound. Then the exact time does not matter.

use aya_ebpf::{
    helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns},
    programs::XdpContext,
};
use limiter_common::{
    abi::{CLOCK_PACKET, Cpu},
    policy::Between,
};

use crate::{config, maps::CPUS, packet};

/// Packets that do with one reading. Ticks may come late (a virtual CPU is stopped for milliseconds), and
/// then the upper bound is too low: no more than so many may be refused because of it.
const USES: u64 = 64;

/// Ticks after a reading at which the upper bound lies: one that the tick may take, and one that it may
/// be late.
const TICKS: u64 = 2;

/// Begins with a packet: after it [`between`] and [`now`] are those of the packet.
#[inline(always)]
pub fn begin(context: &XdpContext) {
    let Some(cpu) = of_this_cpu() else {
        return;
    };
    if config::clock() == CLOCK_PACKET {
        if let Some(stamp) = packet::stamp(context) {
            // SAFETY: `stamp` has checked that it lies within the metadata, and the map value is this
            // CPU's own.
            unsafe {
                let now = (&raw const (*stamp).nanoseconds).read();
                let spread = (&raw const (*stamp).spread).read() as u64;
                (*cpu).earliest = now.saturating_sub(spread);
                (*cpu).latest = now.saturating_add(spread);
                (*cpu).jiffy = now;
            }
        }
        return;
    }
    if config::tick() == 0 {
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

/// Whether this program is on trial and the trial is over. The precise clock: a trial ends when it was said to end.
#[inline(always)]
pub fn is_past_deadline() -> bool {
    let deadline = config::deadline();
    // SAFETY: the helper has no preconditions.
    deadline != 0 && unsafe { bpf_ktime_get_ns() } >= deadline
}

/// `jiffies` when this CPU has looked at them last.
#[inline(always)]
pub fn jiffy() -> u64 {
    // SAFETY: this CPU's own map value.
    of_this_cpu().map_or(0, |cpu| unsafe { (*cpu).jiffy })
}

/// The bounds, if there are any.
#[inline(always)]
pub fn between() -> Option<Between> {
    if config::clock() != CLOCK_PACKET && config::tick() == 0 {
        return None;
    }
    let cpu = of_this_cpu()?;
    // SAFETY: this CPU's own map value.
    unsafe {
        Some(Between {
            earliest: (*cpu).earliest,
            latest: (*cpu).latest,
        })
    }
}

/// Now: the kernel's clock, or what the packet's stamp says where the program was loaded for test or
/// replay.
#[inline(always)]
pub fn now() -> u64 {
    let cpu = of_this_cpu();
    match cpu {
        // SAFETY: this CPU's own map value.
        Some(cpu) if config::clock() == CLOCK_PACKET => unsafe { (*cpu).jiffy },
        // SAFETY: as above.
        Some(cpu) if config::tick() != 0 => unsafe { read(cpu) },
        // SAFETY: the helper has no preconditions.
        _ => unsafe { bpf_ktime_get_ns() },
    }
}

/// # Safety
/// `cpu` is this CPU's own map value.
#[inline(always)]
unsafe fn read(cpu: *mut Cpu) -> u64 {
    // SAFETY: the caller vouches for it; the helper has no preconditions.
    unsafe {
        let now = bpf_ktime_get_ns();
        (*cpu).earliest = now;
        (*cpu).latest = now + TICKS * config::tick();
        (*cpu).uses = USES;
        now
    }
}

#[inline(always)]
fn of_this_cpu() -> Option<*mut Cpu> {
    CPUS.get_ptr_mut(0)
}
