//! The program that is already on the interface, the mode that `attach --mode auto` is expected to use, and what merges
//! packets before the program in that mode.

use limiter_config::{Direction, names::direction_of};
use limiter_kernel::{
    probe::Device,
    sys::{Interface, XdpMode, XdpState},
};

use super::finding::{Finding, Mode, error, ok, warning};

/// The largest MTU, in bytes, with frames that fit in one buffer of a page.
pub(super) const ONE_BUFFER: u32 = 3498;

pub(super) fn program(device: &Device) -> Finding {
    match &device.own {
        Ok(None) => match &device.interface.program_below {
            None => ok("no XDP program is attached"),
            Some(port) => warning(
                format!("no XDP program is attached, but one is attached to the port '{port}'"),
                "attach to one of them alone: a packet would meet the limits of both",
            ),
        },
        Ok(Some(XdpState { mode, program_id })) => ok(format!(
            "limiter is attached already (program {program_id}, {} mode)",
            mode.name()
        )),
        Err(why) => error(why),
    }
}

/// The expected mode: native if the driver supports it and nothing known prevents it, and tc where that is cheaper or XDP
/// sees nothing.
pub(super) fn expected(device: &Device) -> Mode {
    if let Ok(Some(XdpState { mode, .. })) = &device.own {
        return match mode {
            XdpMode::Native => Mode::Native,
            XdpMode::Generic => Mode::Generic,
            XdpMode::Tc => Mode::Tc,
            XdpMode::Offloaded | XdpMode::Multiple => Mode::Unknown,
        };
    }
    let (_, direction) = direction_of(&device.interface.name);
    let interface = &device.interface;
    if !interface.is_read(direction) || interface.is_seen(direction).is_err() {
        return Mode::Unknown;
    }
    if !device.interface.ethernet || direction == Direction::Out {
        return Mode::Tc;
    }
    if device.drawback.is_some() {
        return Mode::Tc;
    }
    match device.xdp {
        None => Mode::Unknown,
        Some(features) if !features.native => Mode::Generic,
        Some(_) if device.interface.program_below.is_some() => Mode::Generic,
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
    let channels = device.channels?;
    let half = channels.max_combined / 2;
    (device.driver.as_deref() == Some("ena") && channels.combined > half).then_some(half)
}

/// Checks LRO: the card merges packets before the program sees them.
pub(super) fn lro(device: &Device, expected: Mode) -> Finding {
    match device.lro {
        None => ok("unknown: the driver does not report it"),
        Some(false) => ok("off"),
        Some(true) if expected == Mode::Tc => {
            ok("on: merged packets count as the packets they were in mode tc")
        }
        // dev_disable_lro in generic_xdp_install, net/core/dev.c.
        Some(true) if expected == Mode::Generic => {
            ok("on: the kernel switches it off when a program is attached in generic mode")
        }
        Some(true) => warning(
            "on: the card merges packets, and many drivers refuse native mode then",
            format!("`ethtool -K {} lro off`", device.interface.name),
        ),
    }
}

/// Checks GRO. Native mode runs before GRO, generic mode after it.
pub(super) fn gro(device: &Device, expected: Mode) -> Finding {
    let Interface { name, loopback, .. } = &device.interface;
    if *loopback {
        // The loopback interface has no NAPI, even if its switch says so.
        return ok("not used by the loopback: packets arrive as they were sent");
    }
    if device.interface.tap && expected != Mode::Tc {
        return warning(
            "does not matter: a virtual machine may send merged packets, and a packet limit counts each as one",
            "attach with --hook tc (Linux 6.6), or switch off its offloads (in QEMU, host_tso4=off,host_tso6=off,host_ufo=off,host_uso=off)",
        );
    }
    match (device.gro, expected) {
        (None, _) => ok("unknown: the driver does not report it"),
        (Some(_), Mode::Tc) => {
            ok("does not matter in mode tc: merged packets count as the packets they were")
        }
        (Some(_), Mode::Native) => ok("runs after native mode: each packet is counted"),
        (Some(false), _) => ok("off here"),
        (Some(true), _) => warning(
            "on: it runs before generic mode, and a packet limit may count 45 merged packets as one",
            format!(
                "if `attach` reports generic mode: `ethtool -K {name} gro off`, and on the lower interfaces that its packets pass"
            ),
        ),
    }
}
