//! From the reason to what happens to the packet.

use aya_ebpf::bindings::xdp_action;
use limiter_common::policy::verdict::Reason;

/// The XDP action for the driver.
#[inline(always)]
pub fn action(reason: Reason) -> u32 {
    if reason.passes() {
        xdp_action::XDP_PASS
    } else {
        xdp_action::XDP_DROP
    }
}
