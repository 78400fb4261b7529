//! The interface, its driver and its queues.

use limiter_config::{Direction, names::direction_of};
use limiter_kernel::{
    ops::attach::{ELSEWHERE, TOO_FEW_QUEUES, begins_with, more_queues},
    probe::{Device, Features, Machine},
    sys::Interface,
};

use super::{
    finding::{Finding, Mode, error, ok, problem, warning},
    mode::{ONE_BUFFER, ena_queues},
};

pub(super) fn interface(device: &Device) -> Finding {
    let Interface { name, index, .. } = &device.interface;
    if let Err(why) = device.interface.is_seen(direction_of(name).1) {
        return error(&why);
    }
    if !device.interface.up {
        return warning(
            format!("index {index}, down: no packets come in"),
            format!("`ip link set {name} up`"),
        );
    }
    if device.interface.loopback {
        return warning(
            format!(
                "index {index}, loopback: limits apply to packets that this machine sends to itself"
            ),
            "unless that is intended, name the interface that packets arrive on (`ip route` lists them)",
        );
    }
    ok(format!("index {index}, up"))
}

/// Checks the framing: the program looks for IP behind an Ethernet header, or at the beginning of the packet.
pub(super) fn frames(device: &Device, machine: &Machine) -> Finding {
    if device.interface.ethernet {
        return ok("Ethernet");
    }
    let (_, direction) = direction_of(&device.interface.name);
    if !device.interface.is_read(direction) {
        let why = begins_with(&device.interface);
        return problem(
            format!("packets {why}, and `attach` refuses this interface"),
            ELSEWHERE,
        );
    }
    if machine.has_tcx {
        return ok("no Ethernet header: mode tc");
    }
    problem(
        "packets have no Ethernet header, and without tcx (Linux 6.6), which this kernel lacks, `attach` refuses this interface",
        format!(
            "attach to the interface that the packets of '{}' arrive on",
            device.interface.name
        ),
    )
}

/// Checks the qdisc of an interface whose outgoing packets are to be limited.
pub(super) fn qdisc(device: &Device, machine: &Machine) -> Option<Finding> {
    let (name, direction) = direction_of(&device.interface.name);
    if direction == Direction::Out && !machine.has_tcx {
        return Some(problem(
            "limits for outgoing packets need tcx (Linux 6.6), which this kernel lacks",
            "update the kernel",
        ));
    }
    let found = match device.has_fq {
        true => "fq: limits may have max_delay".to_owned(),
        false => format!(
            "not fq: limits with max_delay need `tc qdisc replace dev {name} root fq flow_limit 10000` (with several queues, fq below mq)"
        ),
    };
    (direction == Direction::Out).then(|| ok(found))
}

pub(super) fn mtu(device: &Device, machine: &Machine, expected: Mode) -> Finding {
    let Interface { name, mtu, .. } = &device.interface;
    if expected == Mode::Tc {
        return ok(format!("{mtu}: does not matter in mode tc"));
    }
    match device.xdp {
        _ if *mtu <= ONE_BUFFER => ok(format!("{mtu}: frames fit in one buffer")),
        Some(Features { native: false, .. }) => {
            ok(format!("{mtu}: does not matter in generic mode"))
        }
        Some(Features { frags: true, .. }) if machine.has_frags => ok(format!(
            "{mtu}: frames in several buffers, which kernel and driver support"
        )),
        _ => warning(
            format!(
                "{mtu}: kernel or driver may support only frames in one buffer, and native mode may fail above about {ONE_BUFFER}"
            ),
            format!(
                "`ip link set {name} mtu {ONE_BUFFER}`, or expect generic mode, which is several times slower"
            ),
        ),
    }
}

pub(super) fn driver(device: &Device, expected: Mode) -> Finding {
    const SLOWER: &str = "expect generic mode, which is several times slower";
    let name = device.driver.as_deref().unwrap_or("unnamed");
    if expected == Mode::Tc {
        return ok(match device.drawback {
            Some(why) => format!("{name}: mode tc, because {why}"),
            None => format!("{name}: does not matter in mode tc"),
        });
    }
    let Some(features) = device.xdp else {
        return warning(
            format!(
                "{name}: this kernel does not report what the driver supports (Linux 6.3 does)"
            ),
            "`limiter attach` with --mode auto reports it, and falls back to generic mode if needed",
        );
    };
    if let Some(why) = device.obstacle {
        let found = format!("{name}: no native XDP: {why}");
        return warning(found, format!("change that on the host, or {SLOWER}"));
    }
    match features {
        // `veth_set_xdp_features` in drivers/net/veth.c.
        Features { native: false, .. } if name == "veth" => warning(
            format!("{name}: no native XDP: {TOO_FEW_QUEUES}"),
            format!("{}; or {SLOWER}", more_queues(&device.interface.name)),
        ),
        Features { native: false, .. } => warning(format!("{name}: no native XDP"), SLOWER),
        Features { frags: true, .. } => {
            ok(format!("{name}: native XDP, frames in several buffers"))
        }
        _ => ok(format!("{name}: native XDP, frames in one buffer")),
    }
}

pub(super) fn queues(device: &Device, machine: &Machine) -> Finding {
    let cpus = machine.cpus;
    let Some(channels) = device.channels else {
        return ok(format!(
            "unknown: the driver does not report them; {cpus} CPUs"
        ));
    };
    if let Some(half) = ena_queues(device) {
        return warning(
            format!(
                "{} of {} in use, and ena refuses native mode above half of them",
                channels.combined, channels.max_combined
            ),
            format!("`ethtool -L {} combined {half}`", device.interface.name),
        );
    }
    let receive = channels.rx + channels.combined;
    ok(format!("{receive} receive queues, {cpus} CPUs"))
}
