//! From what the limit said to what happens to the packet.

use aya_ebpf::bindings::xdp_action;
use limiter_common::{policy::Parsed, verdict::Reason};

use crate::config;

/// What the packet is counted under: in shadow, what would be dropped is not.
#[inline(always)]
pub fn in_force(reason: Reason) -> Reason {
    match reason {
        Reason::Malformed if config::shadow() => Reason::MalformedWouldDrop,
        reason if config::shadow() && !reason.passes() => Reason::WouldDrop,
        reason => reason,
    }
}

/// The reason for a packet whose source cannot be read. One with too many VLAN tags never passes: the host may
/// deliver it, past every limit and list.
#[inline(always)]
pub fn unreadable(parsed: Parsed) -> Reason {
    match parsed {
        Parsed::Malformed if config::malformed_passes() => Reason::MalformedPassed,
        _ => Reason::Malformed,
    }
}

/// What the driver is told.
#[inline(always)]
pub fn action(reason: Reason) -> u32 {
    if reason.passes() {
        xdp_action::XDP_PASS
    } else {
        xdp_action::XDP_DROP
    }
}
