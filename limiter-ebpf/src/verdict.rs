//! The XDP action for a reason.

use aya_ebpf::bindings::xdp_action;
use limiter_common::policy::verdict::Reason;

/// The XDP action: pass or drop.
#[inline(always)]
pub fn action(reason: Reason) -> u32 {
    if reason.passes() {
        xdp_action::XDP_PASS
    } else {
        xdp_action::XDP_DROP
    }
}
