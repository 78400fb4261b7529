//! The mode that `attach --mode auto` is expected to use.

use super::Mode;
use crate::kernel::{
    probe::{Channels, Device},
    state::occupant::Occupant,
    sys::interface::{XdpMode, XdpState},
};

/// The largest MTU, in bytes, with frames that fit in one buffer of a page.
pub(super) const ONE_BUFFER: u32 = 3498;

/// The expected mode: native if the driver supports it and nothing known prevents it.
pub(super) fn expected(device: &Device) -> Mode {
    if let Occupant::Limiter(XdpState { mode, .. }) = &device.occupant {
        return running(*mode);
    }
    match device.xdp {
        None => Mode::Unknown,
        Some(features) if !features.native => Mode::Generic,
        Some(_) if refused(device) => Mode::Generic,
        // Some drivers refuse such frames, others do not.
        Some(features) if device.interface.mtu > ONE_BUFFER && !features.frags => Mode::Unknown,
        Some(_) if device.lro == Some(true) => Mode::Unknown,
        Some(_) => Mode::Native,
    }
}

fn running(mode: XdpMode) -> Mode {
    match mode {
        XdpMode::Native => Mode::Native,
        XdpMode::Generic => Mode::Generic,
        XdpMode::Offloaded | XdpMode::Multiple => Mode::Unknown,
    }
}

/// Returns true if the driver is known to refuse native mode at present.
fn refused(device: &Device) -> bool {
    fixed_offloads(device) || ena_queues(device).is_some()
}

/// Returns true if the host of a virtio card may send merged or unchecked packets even with its offloads off.
pub(super) fn fixed_offloads(device: &Device) -> bool {
    device.virtio.is_some_and(|offloads| offloads.fixed)
}

/// The maximum number of queues of an ena card in native mode, if the card uses more. Native mode needs a second queue
/// for each, to send (`ena_xdp_legal_queue_count` in drivers/net/ethernet/amazon/ena).
pub(super) fn ena_queues(device: &Device) -> Option<u32> {
    let Channels {
        combined,
        max_combined,
        ..
    } = device.channels?;
    let half = max_combined / 2;
    (device.driver.as_deref() == Some("ena") && combined > half).then_some(half)
}
