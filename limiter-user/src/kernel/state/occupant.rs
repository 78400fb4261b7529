//! The XDP program that an interface runs, and its owner.

use std::io::ErrorKind;

use aya::programs::{
    ProgramInfo,
    links::{LinkError, LinkType},
    loaded_links, loaded_programs,
};

use crate::kernel::{
    Attachment, Error,
    program::object,
    sys::{Interface, XdpMode, XdpState},
};

/// The program on an interface, or what limiter's pins say instead.
#[derive(Debug)]
pub enum Occupant {
    /// No program.
    Free,
    /// Limiter's own program.
    Limiter(XdpState),
    /// A program. This process has no privileges to find out its owner.
    Unknown(XdpState),
    /// Another program or pins of limiter are in the way. The error of `attach`.
    InTheWay(Error),
}

/// The holder that keeps a program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The program was attached through netlink, as `ip link` does.
    Netlink,
    /// A link with this id.
    Link(u32),
    /// Unknown: reading it needs `CAP_SYS_ADMIN`.
    Unknown,
}

/// Finds the owner of the program on `interface`.
pub async fn of(interface: &Interface) -> Occupant {
    let no_rights = match Attachment::open(&interface.name).await {
        Ok(Attachment {
            mode, program_id, ..
        }) => return Occupant::Limiter(XdpState { mode, program_id }),
        Err(Error::NotAttached(_) | Error::NoInterface(_)) => false,
        // `doctor` reports these errors as other findings.
        Err(Error::NotPermitted(_) | Error::Bpffs(_)) => true,
        // Pins of the interface that had this name before.
        Err(Error::Renamed(old, new)) => {
            return Occupant::InTheWay(name_taken(&old, &new));
        }
        Err(error) => return Occupant::InTheWay(error),
    };
    match interface.xdp {
        None => Occupant::Free,
        Some(state) if no_rights => Occupant::Unknown(state),
        Some(state) => Occupant::InTheWay(refusal(interface, state)),
    }
}

/// The error that names the program in the way, with advice to remove it.
pub(in crate::kernel) fn refusal(interface: &Interface, xdp: XdpState) -> Error {
    if let Some(error) = running(interface, xdp) {
        return error;
    }
    let name = &interface.name;
    let off = match xdp.mode {
        XdpMode::Native | XdpMode::Multiple | XdpMode::Tc => "xdp",
        XdpMode::Generic => "xdpgeneric",
        XdpMode::Offloaded => "xdpoffload",
    };
    let front = format!("`limiter attach {name} --chain ...` runs in front of it");
    let how = match holder(xdp) {
        Holder::Netlink => {
            format!("{front}, or remove it first (`ip link set {name} {off} off`)")
        }
        Holder::Link(id) => end_link(id),
        Holder::Unknown => format!(
            "{front} if it was attached through netlink (as `ip link` does), and `ip link set {name} {off} off` removes it; otherwise remove it with the tool that attached it"
        ),
    };
    Error::Refused(format!(
        "{}: {how}; `--hook tc` limits behind it, in the network stack (Linux 6.6)",
        in_the_way(interface, xdp)
    ))
}

/// The error for pins of a renamed interface that are in the way.
pub(in crate::kernel) fn name_taken(old: &str, new: &str) -> Error {
    Error::Refused(format!(
        "limiter was attached to '{new}' when its name was '{old}', and its pins still have the old name: `limiter detach {new}` and attach to it again, then to '{old}'"
    ))
}

/// The name of a program, if it has one.
pub(in crate::kernel) fn name_of(program: &ProgramInfo) -> Option<String> {
    let name = program.name_as_str().filter(|name| !name.is_empty());
    name.map(str::to_owned)
}

/// The name of the program with this id. Reading it needs `CAP_SYS_ADMIN`.
fn name(id: u32) -> Option<String> {
    let mut programs = loaded_programs().flatten();
    name_of(&programs.find(|program| program.id() == id)?)
}

/// Finds the holder that keeps the program on its interface.
pub(in crate::kernel) fn holder(state: XdpState) -> Holder {
    if matches!(state.mode, XdpMode::Multiple) {
        return Holder::Unknown;
    }
    let mut holders = loaded_links().filter_map(|link| match link {
        Ok(link) => {
            let is_its = link.program_id() == state.program_id;
            let holds = is_its && matches!(link.link_type(), Ok(LinkType::Xdp));
            holds.then(|| Holder::Link(link.id()))
        }
        // A link may vanish between being listed and being opened.
        Err(LinkError::SyscallError(call)) if call.io_error.kind() == ErrorKind::NotFound => None,
        Err(_) => Some(Holder::Unknown),
    });
    holders.next().unwrap_or(Holder::Netlink)
}

/// Name and id, for messages.
pub(in crate::kernel) fn describe(state: XdpState) -> String {
    let id = state.program_id;
    // Opening a program by its id needs CAP_SYS_ADMIN. Without it, the message has only the id.
    name(id).map_or_else(|| format!("id {id}"), |name| format!("'{name}', id {id}"))
}

/// The beginning of messages about a program in the way.
pub(in crate::kernel) fn in_the_way(interface: &Interface, state: XdpState) -> String {
    let (program, mode) = (describe(state), state.mode.name());
    format!(
        "another XDP program ({program}, {mode} mode) is attached to '{}', and an interface runs only one",
        interface.name
    )
}

/// Advice to remove a program that a link holds.
pub(in crate::kernel) fn end_link(id: u32) -> String {
    format!(
        "a link holds it, and --chain does not support links: end the process that has the link, or `bpftool link detach id {id}`"
    )
}

/// The error for an interface with the program of a running `learn`.
pub(in crate::kernel) fn running(interface: &Interface, xdp: XdpState) -> Option<Error> {
    name(xdp.program_id).filter(|name| object::LEARN_ENTRIES.contains(&name.as_str()))?;
    Some(Error::Refused(format!(
        "`limiter learn` is running on '{}', and an interface runs one XDP program: wait until it is done, or interrupt it (it then proposes limits from what it has seen)",
        interface.name
    )))
}
