//! A foreign XDP program that limiter runs in front of (`attach --chain`).
//!
//! Limiter pins it among its own pins before taking it off its interface. The pin's name says where the program was:
//! `foreign_<mode>_<index of the interface>`. After a kill at any moment, the next command
//! can put the program back, even if that command cannot read the other pins.

use std::{
    io::{self, ErrorKind},
    os::fd::{AsFd, OwnedFd},
};

use aya::programs::{ProgramError, ProgramFd, ProgramInfo, loaded_programs};
use nix::unistd::geteuid;

use crate::{
    Error, Failed, Result,
    error::cause,
    state::{Folder, pins},
    sys::{Dir, Interface, Link, XdpMode, bpf, lock, netlink},
};

/// A foreign program, and its place.
#[derive(Debug)]
pub struct Foreign {
    /// The program's id.
    pub id: u32,
    /// The program's name, if it has one.
    pub name: Option<String>,
    /// The XDP mode it ran in before.
    pub mode: XdpMode,
    pub(crate) interface: u32,
    fd: OwnedFd,
    /// The user who pinned it.
    owner: u32,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "'{name}' (program {})", self.id),
            None => write!(f, "program {}", self.id),
        }
    }
}

const PREFIX: &str = "foreign_";

fn pin_name(mode: XdpMode, interface: u32) -> String {
    format!("{PREFIX}{}_{interface}", mode.name())
}

fn parse_pin_name(name: &str) -> Option<(XdpMode, u32)> {
    let (mode, interface) = name.strip_prefix(PREFIX)?.split_once('_')?;
    let mode = [XdpMode::Native, XdpMode::Generic]
        .into_iter()
        .find(|known| known.name() == mode)?;
    Some((mode, interface.parse().ok()?))
}

/// The foreign program's pin: its mode and interface index.
fn find_pin(folder: &Dir) -> Option<(XdpMode, u32)> {
    let names = folder.names().ok()?;
    names.iter().find_map(|name| parse_pin_name(name))
}

impl Foreign {
    /// Opens the program on `interface`, also in the type that a program array takes. Opening another user's program
    /// needs `CAP_SYS_ADMIN`.
    pub(crate) fn on(interface: &Interface) -> Result<(Self, ProgramFd)> {
        let nothing_there = || {
            Error::Refused(format!(
                "no XDP program is attached to '{}' that limiter could run in front of: attach it first, or leave --chain out",
                interface.name
            ))
        };
        let state = interface.xdp.ok_or_else(nothing_there)?;
        let refused = |error| match cause(error) {
            why if why.raw_os_error() == Some(libc::EPERM) => Error::NotPermitted(format!(
                "--chain opens the program that is on '{}', which needs CAP_SYS_ADMIN: run it as root with all capabilities",
                interface.name
            )),
            why => Error::system("opening the program on the interface", why),
        };
        let mut programs = loaded_programs().filter(|program| match program {
            Ok(program) => program.id() == state.program_id,
            // The program was unloaded between being listed and being opened.
            Err(ProgramError::SyscallError(call)) => call.io_error.kind() != ErrorKind::NotFound,
            Err(_) => true,
        });
        let program = programs.next().ok_or_else(nothing_there)?;
        let program = program.map_err(refused)?;
        let handle = program.fd().map_err(refused)?;
        let fd = handle.as_fd().try_clone_to_owned();
        let foreign = Self {
            id: state.program_id,
            name: name_of(&program),
            mode: state.mode,
            interface: interface.index,
            owner: geteuid().as_raw(),
            fd: fd.failed("opening a program")?,
        };
        Ok((foreign, handle))
    }

    /// Opens the foreign program that is pinned in `folder`; `None` if limiter runs in front of none.
    pub fn open(folder: &Dir) -> Result<Option<Self>> {
        let Some((mode, interface)) = find_pin(folder) else {
            return Ok(None);
        };
        let name = pin_name(mode, interface);
        let failed = |error| Error::path("opening", folder.path().join(&name), error);
        let pin = match folder.pin(&name) {
            Ok(pin) => pin,
            // Another command has just put it back.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let info = ProgramInfo::from_pin(pin.path());
        let info = info.map_err(|error| failed(io::Error::other(error)))?;
        Ok(Some(Self {
            id: info.id(),
            name: name_of(&info),
            mode,
            interface,
            owner: pin.owner,
            fd: bpf::open_pin(&pin.path()).map_err(failed)?,
        }))
    }

    pub(crate) fn pin(&self, folder: &Dir) -> Result<()> {
        folder.put(&pin_name(self.mode, self.interface), self.fd.as_fd())
    }

    pub(crate) async fn take_off(&self) -> io::Result<()> {
        netlink::take_off((self.interface, self.mode), self.fd.as_fd()).await
    }

    /// Puts the program back where it was, if no other program is there. `folder` has its pin. The program must be opened
    /// before limiter is taken off. Returns the program if it runs again; `None` if this network namespace has no
    /// interface of that index. If this fails, the pins must stay, and the next command tries again.
    pub(crate) async fn put_back(self, folder: &Dir) -> Result<Option<Self>> {
        // The folder's owner may have chosen the pin's name, and has no rights over other interfaces.
        if ![0, geteuid().as_raw()].contains(&self.owner) {
            let why = format!("user {} has pinned it", self.owner);
            let first = "give the pin to root (`chown root`) if that program belongs there,";
            return Err(self.not_put_back(folder, &why, first));
        }
        let (place, fd) = ((self.interface, self.mode), self.fd.as_fd());
        let refused = match netlink::put_on(place, fd).await {
            Ok(()) => return Ok(Some(self)),
            Err(error) => error,
        };
        match refused.raw_os_error() {
            Some(libc::ENODEV) => Ok(None),
            // A killed command had put the program back, or had not taken it off.
            Some(libc::EBUSY | libc::EEXIST) if netlink::is_on(place, fd).await => Ok(Some(self)),
            Some(libc::EBUSY | libc::EEXIST) => {
                let why = "another XDP program has taken its place";
                Err(self.not_put_back(folder, why, "remove that one"))
            }
            _ => Err(self.not_put_back(folder, &refused.to_string(), "fix that")),
        }
    }

    /// The error for a program that could not be put back. It stays pinned, so nothing is lost.
    pub(crate) fn not_put_back(&self, folder: &Dir, why: &str, first: &str) -> Error {
        let interface = pins::interface_of(folder.path()).unwrap_or_default();
        let pin = folder.path().join(pin_name(self.mode, self.interface));
        Error::Refused(format!(
            "limiter is detached from '{interface}', but the XDP program that it ran in front of, {self}, could not be put back ({why}): {first} and `limiter detach {interface}` again; until then it stays pinned as {} (remove the pin to unload it)",
            pin.display()
        ))
    }
}

/// The name of a program, if it has one.
pub(crate) fn name_of(program: &ProgramInfo) -> Option<String> {
    let name = program.name_as_str().filter(|name| !name.is_empty());
    name.map(str::to_owned)
}

/// The error for a folder of pins without a link: limiter is off, and the program that it ran in front of was not put
/// back. `None` if that program runs, its interface is gone, or another command works on the folder.
pub(crate) fn waiting(folder: &Folder, interfaces: &[Interface]) -> Option<Error> {
    let dir = folder.open().ok().flatten()?;
    let _lock = lock::try_lock(&dir).ok().flatten()?;
    let foreign = Foreign::open(&dir).ok().flatten()?;
    let mut own = interfaces.iter();
    let interface = own.find(|interface| interface.index == foreign.interface)?;
    let runs = interface
        .xdp
        .is_some_and(|xdp| xdp.program_id == foreign.id);
    if runs || Link::open(&dir).is_ok_and(|link| link.is_some()) {
        return None;
    }
    let name = &folder.interface;
    Some(Error::Refused(format!(
        "limiter was killed on '{name}' before it could put back {foreign}, the program that it ran in front of: `limiter detach {name}` puts it back"
    )))
}

/// Returns true if a folder of pins has a foreign program that must be put back.
pub(crate) fn is_pinned(folder: &Dir) -> bool {
    find_pin(folder).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pin_name_encodes_mode_and_interface() {
        for (mode, interface) in [(XdpMode::Native, 2), (XdpMode::Generic, 4_294_967_295)] {
            let name = pin_name(mode, interface);
            assert!(!name.contains('.'), "bpffs allows no dots: {name}");
            assert_eq!(parse_pin_name(&name), Some((mode, interface)), "{name}");
        }
        for other in [
            "foreign",
            "foreign_native",
            "foreign_offloaded_2",
            "link",
            "NEXT",
        ] {
            assert_eq!(parse_pin_name(other), None, "{other}");
        }
    }
}
