//! The program that is already on the interface, and the mode that `attach --mode auto` is expected to use.

use super::{Case, Finding, Mode, error, ok, problem};
use crate::kernel::{
    probe::{Channels, Device},
    state::occupant::Occupant,
    sys::interface::{XdpMode, XdpState},
};

/// The largest MTU, in bytes, with frames that fit in one buffer of a page.
pub(super) const ONE_BUFFER: u32 = 3498;

pub(super) fn program(case: &Case<'_>) -> Finding {
    let place = |state: &XdpState| {
        let (id, mode) = (state.program_id, state.mode.name());
        format!("program {id}, {mode} mode")
    };
    match &case.device.occupant {
        Occupant::Free => ok("no XDP program is attached"),
        Occupant::Limiter(state) => ok(format!("limiter is attached already ({})", place(state))),
        Occupant::Unknown(state) => problem(
            format!(
                "an XDP program is attached ({}); its owner is hidden from unprivileged users",
                place(state)
            ),
            "run `limiter doctor` with sudo",
        ),
        Occupant::InTheWay(why) => error(why),
    }
}

/// The expected mode: native if the driver supports it and nothing known prevents it.
pub(super) fn expected(device: &Device) -> Mode {
    if let Occupant::Limiter(XdpState { mode, .. }) = &device.occupant {
        return match mode {
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
            XdpMode::Offloaded | XdpMode::Multiple => Mode::Unknown,
        };
    }
    match device.xdp {
        None => Mode::Unknown,
        Some(features) if !features.native => Mode::Generic,
        Some(_) if device.obstacle.is_some() || ena_queues(device).is_some() => Mode::Generic,
        // Some drivers refuse such frames, others do not.
        Some(features) if device.interface.mtu > ONE_BUFFER && !features.frags => Mode::Unknown,
        Some(_) if device.lro == Some(true) => Mode::Unknown,
        Some(_) => Mode::Native,
    }
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
