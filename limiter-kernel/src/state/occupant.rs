//! The XDP program that an interface runs, and its owner.

use std::io;

use aya::{
    maps::{MapInfo, MapType},
    programs::{ProgramInfo, loaded_programs},
};

use crate::{
    Attachment, Error, Result,
    state::{foreign::name_of, stray},
    sys::{Interface, XdpMode, XdpState},
};

/// Advice to remove a program that a link holds.
pub(crate) const END_LINK: &str =
    "end the process that attached it, or `bpftool link detach id ID` (`bpftool link` lists them)";

/// Limiter's own program on `interface`; `None` if it runs no program. Fails as `attach` does if another program or pins
/// of limiter are in the way, and if this process has no privileges to find out whose program it is.
pub async fn of(interface: &Interface) -> Result<Option<XdpState>> {
    let hidden = match Attachment::open(&interface.name).await {
        Ok(Attachment {
            mode, program_id, ..
        }) => return Ok(Some(XdpState { mode, program_id })),
        Err(error @ Error::PinnedElsewhere(..)) if interface.xdp.is_none() => return Err(error),
        Err(Error::NotAttached(_) | Error::NoInterface(_) | Error::PinnedElsewhere(..)) => false,
        // `doctor` reports these errors as other findings.
        Err(Error::NotPermitted(_) | Error::Bpffs(_)) => true,
        Err(error) => return Err(error),
    };
    match interface.xdp {
        None => program_above(interface).map_or(Ok(None), Err),
        Some(state) if hidden => Err(Error::Refused(format!(
            "an XDP program is attached (id {}, {} mode), and its owner is hidden from unprivileged users: run `limiter doctor` with sudo",
            state.program_id,
            state.mode.name()
        ))),
        Some(state) => Err(refusal(interface, state)),
    }
}

/// The error for an interface above this one that has a program: `dev_xdp_attach` in net/core/dev.c then refuses another
/// one below it, but takes them in the other order.
pub(crate) fn program_above(interface: &Interface) -> Option<Error> {
    let (name, above) = (&interface.name, interface.program_above.as_ref()?);
    Some(Error::Refused(format!(
        "'{above}' is above '{name}' and has an XDP program, and the kernel takes none below it: detach that program, attach to '{name}', then to '{above}' again if both are wanted; or use --hook tc, in the network stack (Linux 6.6)"
    )))
}

/// The kernel's own words, behind a reason.
pub(crate) fn said(words: Option<&str>) -> String {
    words.map_or(String::new(), |words| {
        format!("; the kernel says '{words}'")
    })
}

/// The error for an interface called `name` that runs no program as far as this command could see, although the kernel
/// takes no XDP program there (`dev_xdp_attach` and `dev_xdp_install` in net/core/dev.c).
pub(crate) fn taken(name: &str, why: &io::Error, words: Option<&str>) -> Error {
    let words = said(words);
    let reason = match why.raw_os_error() {
        Some(libc::EEXIST) => {
            "an interface above it (VLAN, macvlan, vxlan) in another network namespace has one, or another one has just been attached: detach that program"
        }
        _ => {
            "another one has just been attached, or the card puts packets into a process's own memory (io_uring, devmem TCP; `ethtool -g` shows tcp-data-split): end that"
        }
    };
    Error::Refused(format!(
        "the kernel takes no XDP program on '{name}' now ({why}{words}): {reason} (`ip link show {name}` shows a program's id), or use --hook tc, in the network stack (Linux 6.6)"
    ))
}

/// The error that names the program in the way, with advice to remove it.
pub(crate) fn refusal(interface: &Interface, xdp: XdpState) -> Error {
    let name = &interface.name;
    let off = match xdp.mode {
        XdpMode::Generic => "xdpgeneric",
        XdpMode::Offloaded => "xdpoffload",
        _ => "xdp",
    };
    let program = program(xdp.program_id);
    let behind = match &program {
        Some(program) if stray::is_own(program) => {
            "it is limiter's, pinned in another bpffs, such as a container's, or held by a process"
        }
        Some(program) if fills_sockets(program) => {
            "its packets go to AF_XDP sockets, past all limits in the network stack"
        }
        _ => {
            "`--hook tc` limits behind it, in the network stack (Linux 6.6), so not what goes to AF_XDP sockets"
        }
    };
    Error::Refused(format!(
        "{}: if it was attached through netlink (as `ip link` does), `limiter attach {name} --chain ...` runs in front of it, and `ip link set {name} {off} off` removes it; if a link holds it, {END_LINK}; {behind}",
        in_the_way(interface, xdp)
    ))
}

/// The program with this id. Reading it needs `CAP_SYS_ADMIN`.
pub(crate) fn program(id: u32) -> Option<ProgramInfo> {
    loaded_programs()
        .flatten()
        .find(|program| program.id() == id)
}

/// Returns true if the program has a map of AF_XDP sockets. That of a program behind a dispatcher of libxdp is not found.
fn fills_sockets(program: &ProgramInfo) -> bool {
    let maps = program.map_ids().ok().flatten().unwrap_or_default();
    let kinds = maps
        .into_iter()
        .filter_map(|id| MapInfo::from_id(id).ok()?.map_type().ok());
    kinds.into_iter().any(|kind| kind == MapType::XskMap)
}

/// The beginning of messages about a program in the way.
pub(crate) fn in_the_way(interface: &Interface, state: XdpState) -> String {
    let (id, mode) = (state.program_id, state.mode.name());
    let name = program(id).and_then(|program| name_of(&program));
    let name = name.map_or(String::new(), |name| format!("'{name}', "));
    format!(
        "another XDP program ({name}id {id}, {mode} mode) is attached to '{}', and an interface runs only one",
        interface.name
    )
}
