//! The interface, its driver and its queues.

use super::{
    Finding, Mode,
    mode::{ONE_BUFFER, ena_queues, fixed_offloads},
};
use crate::kernel::probe::{Channels, Device, Features, Machine};

pub(super) fn findings(
    name: &str,
    device: &Device,
    machine: &Machine,
    expected: Mode,
) -> Vec<Finding> {
    vec![
        interface(name, device),
        frames(name, device),
        mtu(name, device, machine),
        driver(name, device, expected),
        queues(name, device, machine.cpus),
    ]
}

fn interface(name: &str, device: &Device) -> Finding {
    const CHECK: &str = "interface";
    let index = device.interface.index;
    if !device.interface.up {
        return Finding::warning(
            CHECK,
            format!("index {index}, down: no packets come in"),
            format!("`ip link set {name} up`"),
        );
    }
    if device.interface.loopback {
        return Finding::warning(
            CHECK,
            format!("index {index}, loopback: what this machine sends to itself is limited too"),
            "name the interface that packets come in by (`ip route` lists them), unless that is meant",
        );
    }
    Finding::ok(CHECK, format!("index {index}, up"))
}

/// The program looks for IP behind an Ethernet header.
fn frames(name: &str, device: &Device) -> Finding {
    const CHECK: &str = "frames";
    if device.interface.ethernet {
        return Finding::ok(CHECK, "Ethernet");
    }
    Finding::problem(
        CHECK,
        "packets come in without an Ethernet header, and `attach` refuses, because they would be read wrongly",
        format!("attach to the interface that the packets of '{name}' arrive on"),
    )
}

fn mtu(name: &str, device: &Device, machine: &Machine) -> Finding {
    const CHECK: &str = "mtu";
    let mtu = device.interface.mtu;
    let kernel = machine.kernel.as_ref();
    let kernel_takes = kernel.is_ok_and(|version| version.has_frags());
    let why = match device.xdp {
        _ if mtu <= ONE_BUFFER => {
            return Finding::ok(CHECK, format!("{mtu}: frames fit in one buffer"));
        }
        Some(Features { native: false, .. }) => {
            return Finding::ok(CHECK, format!("{mtu}: of no importance in generic mode"));
        }
        _ if !kernel_takes => "this kernel takes frames in one buffer only in native mode",
        Some(Features { frags: true, .. }) => {
            return Finding::ok(
                CHECK,
                format!("{mtu}: frames in several buffers, which kernel and driver take"),
            );
        }
        Some(_) => "the driver takes frames in one buffer only",
        None => "this kernel does not say whether the driver takes frames in several buffers",
    };
    Finding::warning(
        CHECK,
        format!("{mtu}: {why}, and may refuse native mode above about {ONE_BUFFER}"),
        format!("`ip link set {name} mtu {ONE_BUFFER}`, or expect generic mode, which is slower"),
    )
}

fn driver(interface: &str, device: &Device, expected: Mode) -> Finding {
    const CHECK: &str = "driver";
    const SLOWER: &str = "expect generic mode, which is several times slower";
    let name = device.driver.as_deref().unwrap_or("unnamed");
    let Some(features) = device.xdp else {
        return Finding::warning(
            CHECK,
            format!("{name}: this kernel does not say what it can do with XDP (Linux 6.3 does)"),
            "`limiter attach` tells: with --mode auto it falls back to generic mode, and says so",
        );
    };
    if fixed_offloads(device) {
        return Finding::warning(
            CHECK,
            format!(
                "{name}: refuses native mode, because the host may send merged or unchecked packets and cannot be told not to"
            ),
            format!(
                "have the host offer the control of guest offloads (`ctrl_guest_offloads=on` in QEMU), or {SLOWER}"
            ),
        );
    }
    match features {
        // veth_set_xdp_features in drivers/net/veth.c.
        Features { native: false, .. } if name == "veth" => Finding::warning(
            CHECK,
            "veth: no native XDP as long as its peer has more queues to send by than it has to receive",
            format!("give it as many (`ethtool -L {interface} rx N`), or {SLOWER}"),
        ),
        Features { native: false, .. } => {
            Finding::warning(CHECK, format!("{name}: has no native XDP"), SLOWER)
        }
        Features { frags: true, .. } => Finding::ok(
            CHECK,
            format!("{name}: native XDP, frames in several buffers"),
        ),
        _ if expected == Mode::Native => {
            Finding::ok(CHECK, format!("{name}: native XDP, frames in one buffer"))
        }
        _ => Finding::ok(
            CHECK,
            format!("{name}: native XDP, frames in one buffer, as far as the other checks let it"),
        ),
    }
}

fn queues(name: &str, device: &Device, cpus: u32) -> Finding {
    const CHECK: &str = "queues";
    let Some(channels) = device.channels else {
        return Finding::ok(CHECK, format!("not told by the driver; {cpus} CPUs"));
    };
    let Channels {
        rx,
        combined,
        max_combined,
        ..
    } = channels;
    let receive = rx + combined;
    let found = format!("{receive} to receive, {cpus} CPUs");
    if let Some(half) = ena_queues(device) {
        return Finding::warning(
            CHECK,
            format!(
                "{combined} of {max_combined} in use, and ena refuses native mode above half of them"
            ),
            format!("`ethtool -L {name} combined {half}`"),
        );
    }
    // What software makes has queues for other reasons, and on ena more would be refused.
    let hardware = device.interface.parent.is_some() && device.driver.as_deref() != Some("ena");
    match more(channels, cpus) {
        Some(more) if hardware => Finding::warning(
            CHECK,
            format!("{found}, and there may be more queues"),
            format!("`ethtool -L {name} {more}`"),
        ),
        _ => Finding::ok(CHECK, found),
    }
}

/// How to have a queue for each CPU, or as many as there may be, where that is more than now.
fn more(channels: Channels, cpus: u32) -> Option<String> {
    let Channels {
        rx,
        max_rx,
        combined,
        max_combined,
    } = channels;
    let wanted = |most: u32, others: u32| most.min(cpus.saturating_sub(others));
    let (by_combined, by_rx) = (wanted(max_combined, rx), wanted(max_rx, combined));
    if by_combined > combined {
        Some(format!("combined {by_combined}"))
    } else if by_rx > rx && max_combined == 0 {
        Some(format!("rx {by_rx}"))
    } else {
        None
    }
}
