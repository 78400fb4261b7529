//! What time it is.

use aya_ebpf::{helpers::generated::bpf_ktime_get_ns, programs::XdpContext};
use limiter_common::{bucket, layout::CLOCK_PACKET};

use crate::{config, packet};

/// Now, in ticks: the kernel's monotonic clock, or what the packet's stamp says where the program was loaded for
/// test or replay.
#[inline(always)]
pub fn now(context: &XdpContext) -> u64 {
    if config::clock() == CLOCK_PACKET {
        return match packet::stamp(context) {
            // SAFETY: `stamp` has checked that it lies within the metadata.
            Some(stamp) => bucket::ticks(unsafe { (&raw const (*stamp).nanoseconds).read() }),
            None => 0,
        };
    }
    // SAFETY: the helper has no preconditions.
    bucket::ticks(unsafe { bpf_ktime_get_ns() })
}
