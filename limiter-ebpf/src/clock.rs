//! What time it is, in nanoseconds of the kernel's monotonic clock.

use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::XdpContext};
use limiter_common::layout::CLOCK_PACKET;

use crate::{config, packet};

/// Now: the kernel's clock, or what the packet's stamp says where the program was loaded for test or
/// replay.
#[inline(always)]
pub fn now(context: &XdpContext) -> u64 {
    if config::clock() == CLOCK_PACKET {
        return match packet::stamp(context) {
            // SAFETY: `stamp` has checked that it lies within the metadata.
            Some(stamp) => unsafe { (&raw const (*stamp).nanoseconds).read() },
            None => 0,
        };
    }
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

/// The kernel's clock once more, later in the same packet; a packet's own time stands still.
#[inline(always)]
pub fn again(now: u64) -> u64 {
    if config::clock() == CLOCK_PACKET {
        return now;
    }
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}
