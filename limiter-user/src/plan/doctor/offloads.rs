//! Changes that the card and the network stack make to packets before the program sees them.

use super::{Case, Finding, Mode, ok, warning};

pub(super) fn lro(case: &Case<'_>) -> Finding {
    let Case { name, device, .. } = case;
    match device.lro {
        None => ok("not told by the driver"),
        Some(false) => ok("off"),
        // dev_disable_lro in generic_xdp_install, net/core/dev.c.
        Some(true) if case.expected == Mode::Generic => {
            ok("on: the kernel switches it off when a program is attached in generic mode")
        }
        Some(true) => warning(
            "on: the card merges packets, and many drivers refuse native mode then",
            format!("`ethtool -K {name} lro off`"),
        ),
    }
}

/// Checks GRO. Native mode runs before GRO, generic mode after it.
pub(super) fn gro(case: &Case<'_>) -> Finding {
    let Case { name, device, .. } = case;
    if device.interface.loopback {
        // The loopback interface has no NAPI, even if its switch says so.
        return ok("has no part in the loopback, whose packets come in as they were sent");
    }
    let beneath = if device.interface.parent.is_none() {
        ", and on the interfaces that its packets come through before"
    } else {
        ""
    };
    match (device.gro, case.expected) {
        (None, _) => ok("not told by the driver"),
        (Some(_), Mode::Native) => ok("comes after native mode: each packet is counted"),
        (Some(false), _) => ok("off here"),
        (Some(true), Mode::Generic) => warning(
            "on: generic mode comes after it, and a packet limit may count 45 merged packets as one",
            format!("`ethtool -K {name} gro off`{beneath}"),
        ),
        (Some(true), Mode::Unknown) => warning(
            "on: should attach fall back to generic mode, a packet limit may count 45 merged packets as one",
            format!("`ethtool -K {name} gro off`{beneath}, where `attach` says generic"),
        ),
    }
}

pub(super) fn vlan(case: &Case<'_>) -> Finding {
    let found = match case.device.vlan {
        Some(true) => {
            "the outer tag is taken off before the program sees it, which changes nothing for it"
        }
        Some(false) => "tags stay in the frame: up to two are looked behind",
        None => "not told by the driver: up to eight tags in the frame are looked behind",
    };
    ok(found)
}
