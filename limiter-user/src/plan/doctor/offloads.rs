//! What card and stack do to packets before the program sees them.

use super::{Finding, Mode};
use crate::kernel::probe::Device;

pub(super) fn findings(name: &str, device: &Device, expected: Mode) -> Vec<Finding> {
    vec![
        lro(name, device, expected),
        gro(name, device, expected),
        vlan(device),
    ]
}

fn lro(name: &str, device: &Device, expected: Mode) -> Finding {
    const CHECK: &str = "lro";
    match device.lro {
        None => Finding::ok(CHECK, "not told by the driver"),
        Some(false) => Finding::ok(CHECK, "off"),
        // dev_disable_lro in generic_xdp_install, net/core/dev.c.
        Some(true) if expected == Mode::Generic => Finding::ok(
            CHECK,
            "on: the kernel switches it off when a program is attached in generic mode",
        ),
        Some(true) => Finding::warning(
            CHECK,
            "on: the card merges packets, and many drivers refuse native mode then",
            format!("`ethtool -K {name} lro off`"),
        ),
    }
}

/// Native mode comes before it, generic mode after it.
fn gro(name: &str, device: &Device, expected: Mode) -> Finding {
    const CHECK: &str = "gro";
    if device.interface.loopback {
        // Whatever the switch says: the loopback has no NAPI.
        return Finding::ok(
            CHECK,
            "has no part in the loopback, whose packets come in as they were sent",
        );
    }
    let beneath = if device.interface.parent.is_none() {
        ", and on the interfaces that its packets come through before"
    } else {
        ""
    };
    match (device.gro, expected) {
        (None, _) => Finding::ok(CHECK, "not told by the driver"),
        (Some(_), Mode::Native) => {
            Finding::ok(CHECK, "comes after native mode: each packet is counted")
        }
        (Some(false), _) => Finding::ok(CHECK, "off here"),
        (Some(true), Mode::Generic) => Finding::warning(
            CHECK,
            "on: generic mode comes after it, and a packet limit may count 45 merged packets as one",
            format!("`ethtool -K {name} gro off`{beneath}"),
        ),
        (Some(true), Mode::Unknown) => Finding::warning(
            CHECK,
            "on: should attach fall back to generic mode, a packet limit may count 45 merged packets as one",
            format!("`ethtool -K {name} gro off`{beneath}, where `attach` says generic"),
        ),
    }
}

fn vlan(device: &Device) -> Finding {
    let found = match device.vlan {
        Some(true) => {
            "the outer tag is taken off before the program sees it, which changes nothing for it"
        }
        Some(false) => "tags stay in the frame: up to two are looked behind",
        None => "not told by the driver: up to eight tags in the frame are looked behind",
    };
    Finding::ok("vlan", found)
}
