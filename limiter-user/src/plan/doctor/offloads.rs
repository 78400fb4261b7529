//! Changes that the card and the network stack make to packets before the program sees them.

use super::{Case, Finding, Mode, ok, warning};

pub(super) fn lro(case: &Case<'_>) -> Finding {
    let Case { name, device, .. } = case;
    match device.lro {
        None => ok("unknown: the driver does not report it"),
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
        return ok("not used by the loopback: packets arrive as they were sent");
    }
    match (device.gro, case.expected) {
        (None, _) => ok("unknown: the driver does not report it"),
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
