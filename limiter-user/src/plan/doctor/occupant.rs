//! The XDP program that is already on the interface.

use super::{Case, Finding, error, ok, problem};
use crate::kernel::{
    state::occupant::{Holder, Occupant},
    sys::interface::{XdpMode, XdpState},
};

pub(super) fn program(case: &Case<'_>) -> Finding {
    match &case.device.occupant {
        Occupant::Free => ok("no XDP program is attached"),
        Occupant::Limiter(state) => ok(format!("limiter is attached already ({})", place(*state))),
        Occupant::Unknown(state) => problem(
            format!(
                "an XDP program is attached ({}); its owner is hidden from unprivileged users",
                place(*state)
            ),
            "run `limiter doctor` with sudo",
        ),
        Occupant::Foreign {
            state,
            name,
            holder,
        } => foreign(case.name, *state, name.as_deref(), *holder),
        Occupant::InTheWay(why) => error(why),
    }
}

fn place(state: XdpState) -> String {
    format!("program {}, {} mode", state.program_id, state.mode.name())
}

fn foreign(interface: &str, state: XdpState, name: Option<&str>, holder: Holder) -> Finding {
    let name = name.map_or_else(String::new, |name| format!(" '{name}'"));
    let how = match holder {
        Holder::Netlink => ", attached by netlink".to_owned(),
        Holder::Link(id) => format!(", held by link {id}"),
        Holder::Unknown => String::new(),
    };
    let found = format!(
        "another XDP program{name} is attached ({}{how}), and an interface runs only one",
        place(state)
    );
    problem(found, removal(interface, state.mode, holder))
}

/// The command that removes the program.
fn removal(interface: &str, mode: XdpMode, holder: Holder) -> String {
    let off = match mode {
        XdpMode::Native | XdpMode::Multiple => "xdp",
        XdpMode::Generic => "xdpgeneric",
        XdpMode::Offloaded => "xdpoffload",
    };
    match holder {
        Holder::Netlink => format!(
            "`limiter attach {interface} --chain ...` runs in front of it; or remove it with the tool that put it there, or `ip link set {interface} {off} off`"
        ),
        Holder::Link(id) => format!(
            "limiter cannot run in front of a program that a link holds (--chain): end the process that holds the link, or `bpftool link detach id {id}` (`ip link` does not remove it)"
        ),
        Holder::Unknown => format!(
            "`limiter attach {interface} --chain ...` as root runs in front of it if it was attached by netlink; or remove it with the tool that put it there: `bpftool net show dev {interface}` as root lists what is attached"
        ),
    }
}
