//! Debug lines through aya-log.

use aya_ebpf::programs::XdpContext;
use aya_log_ebpf::debug;
use limiter_common::{
    policy::verdict::Reason,
    table::key::{Address, IPV4},
};

/// Logs the decision about a packet. A separate function: the limits need the whole stack.
#[inline(never)]
pub fn packet(context: &XdpContext, source: &Address, reason: Reason, length: u64) {
    // SAFETY: the same bytes.
    let [a, b, c, d]: [u32; 4] = unsafe { core::mem::transmute(source.words) };
    if source.family == IPV4 {
        debug!(
            context,
            "{:i}: {} bytes, reason {}",
            u32::from_be(a),
            length,
            reason as u32
        );
    } else {
        debug!(
            context,
            "{:x}:{:x}:{:x}:{:x}: {} bytes, reason {}",
            u32::from_be(a),
            u32::from_be(b),
            u32::from_be(c),
            u32::from_be(d),
            length,
            reason as u32
        );
    }
}
