//! The XDP program of somebody else that limiter runs in front of (`attach --chain`).
//!
//! It is pinned among limiter's pins before it is taken off its interface, under a name that says where it
//! was: `foreign_<mode>_<index of the interface>`. So whoever is killed at whatever moment leaves enough
//! to put it back, even for a command that cannot read the rest.

use std::{
    io::{self, ErrorKind},
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use aya::programs::{ProgramError, ProgramFd, ProgramInfo, loaded_programs};
use nix::unistd::geteuid;

use crate::kernel::{
    error::{Error, Result},
    state::{pins, pins::Folder},
    sys::{
        bpf,
        folder::Dir,
        interface::{Interface, XdpMode, XdpState},
        link::Link,
        lock, netlink,
    },
};

/// Such a program, and where it belongs.
#[derive(Debug)]
pub struct Foreign {
    /// Its id.
    pub id: u32,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Where it ran before.
    pub mode: XdpMode,
    pub(in crate::kernel) interface: u32,
    fd: OwnedFd,
    /// The user who has pinned it.
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

/// How long a command is given to be done.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// Whether pins of such programs are called so.
pub(in crate::kernel) fn is_pin_name(name: &str) -> bool {
    parse_pin_name(name).is_some()
}

/// The name of the pin, and what it says.
fn find_pin(folder: &Dir) -> Option<(String, XdpMode, u32)> {
    let mut pins = folder.names().ok()?.into_iter().filter_map(|name| {
        let (mode, interface) = parse_pin_name(&name)?;
        Some((name, mode, interface))
    });
    pins.next()
}

impl Foreign {
    /// The program on `interface`, and what a program array takes. Opening the program of another wants
    /// `CAP_SYS_ADMIN`.
    pub(in crate::kernel) fn on(
        interface: &Interface,
        state: XdpState,
    ) -> Result<(Self, ProgramFd)> {
        let refused = |error| match error {
            ProgramError::SyscallError(call)
                if call.io_error.raw_os_error() == Some(libc::EPERM) =>
            {
                Error::Refused(format!(
                    "not permitted: --chain opens the program that is on '{}', which needs CAP_SYS_ADMIN: run it as root with all capabilities",
                    interface.name
                ))
            }
            error => Error::system(
                "opening the program on the interface",
                io::Error::other(error),
            ),
        };
        for program in loaded_programs() {
            let program = match program {
                // It was unloaded between being listed and being opened.
                Err(ProgramError::SyscallError(call))
                    if call.io_error.kind() == ErrorKind::NotFound =>
                {
                    continue;
                }
                program => program.map_err(refused)?,
            };
            if program.id() != state.program_id {
                continue;
            }
            let handle = program.fd().map_err(refused)?;
            let fd = handle.as_fd().try_clone_to_owned();
            let foreign = Self {
                id: state.program_id,
                name: name_of(&program),
                mode: state.mode,
                interface: interface.index,
                owner: geteuid().as_raw(),
                fd: fd.map_err(|error| Error::system("opening a program", error))?,
            };
            return Ok((foreign, handle));
        }
        Err(nothing_there(interface))
    }

    /// The one that is pinned in `folder`; none where limiter runs in front of none.
    pub fn open(folder: &Dir) -> Result<Option<Self>> {
        let Some((name, mode, interface)) = find_pin(folder) else {
            return Ok(None);
        };
        let failed = |error| Error::path("opening", folder.path().join(&name), error);
        let pin = match folder.pin(&name) {
            Ok(pin) => pin,
            // Somebody has put it back this moment.
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

    pub(in crate::kernel) fn pin(&self, folder: &Dir) -> Result<()> {
        let name = pin_name(self.mode, self.interface);
        bpf::pin(self.fd.as_fd(), &folder.at(&name))
            .map_err(|error| Error::path("pinning", self.path(folder), error))
    }

    fn path(&self, folder: &Dir) -> PathBuf {
        folder.path().join(pin_name(self.mode, self.interface))
    }

    pub(in crate::kernel) fn take_off(&self) -> io::Result<()> {
        netlink::take_off(self.interface, self.mode, self.fd.as_fd())
    }

    /// Puts it back where it was, if no other program is there; `folder` has its pin. False where there is no interface of
    /// that index in this network namespace.
    pub(in crate::kernel) fn put_back(&self, folder: &Dir) -> Result<bool> {
        // Whoever owns the folder may have given the pin its name, and has no say about other interfaces.
        if ![0, geteuid().as_raw()].contains(&self.owner) {
            return Err(self.not_put_back(
                folder,
                format!("user {} has pinned it", self.owner),
                "give the pin to root (`chown root`) if that program belongs there,",
            ));
        }
        let fd = self.fd.as_fd();
        let refused = match netlink::put_on(self.interface, self.mode, fd) {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        match refused.raw_os_error() {
            Some(libc::ENODEV) => Ok(false),
            // A command that was killed had put it back, or had not taken it off.
            Some(libc::EBUSY | libc::EEXIST) if netlink::is_on(self.interface, self.mode, fd) => {
                Ok(true)
            }
            Some(libc::EBUSY | libc::EEXIST) => Err(self.not_put_back(
                folder,
                "another XDP program has taken its place".to_owned(),
                "remove that one",
            )),
            _ => Err(self.not_put_back(folder, refused.to_string(), "put that right")),
        }
    }

    /// Nothing is lost: it stays pinned.
    pub(in crate::kernel) fn not_put_back(
        &self,
        folder: &Dir,
        why: String,
        first: &'static str,
    ) -> Error {
        let interface = pins::interface_of(folder.path()).unwrap_or_default();
        Error::Refused(format!(
            "limiter is off '{interface}', but the XDP program that it ran in front of, {self}, could not be put back ({why}): {first} and `limiter detach {interface}` again; until then it stays pinned as {} (remove that to give it up)",
            self.path(folder).display()
        ))
    }
}

/// There is nothing to run in front of.
pub(in crate::kernel) fn nothing_there(interface: &Interface) -> Error {
    Error::Refused(format!(
        "no XDP program is attached to '{}' that limiter could run in front of: attach that one first, or leave --chain out",
        interface.name
    ))
}

fn name_of(program: &ProgramInfo) -> Option<String> {
    let name = program.name_as_str().filter(|name| !name.is_empty());
    name.map(str::to_owned)
}

/// Puts back the program that limiter ran in front of, which was opened before limiter was taken off. Returns it if it runs
/// again. Where that fails, the pins must stay, and the next command tries again.
pub(in crate::kernel) fn restore(
    folder: &Dir,
    foreign: Option<Foreign>,
) -> Result<Option<Foreign>> {
    let Some(foreign) = foreign else {
        return Ok(None);
    };
    Ok(foreign.put_back(folder)?.then_some(foreign))
}

/// What is wrong where a folder of pins has no link: limiter is off, and a program that it ran in front of
/// was not put back. None where that runs, or its interface is gone: then nothing is missing.
pub(in crate::kernel) fn waiting(folder: &Folder, interfaces: &[Interface]) -> Option<Error> {
    let start = Instant::now();
    loop {
        let dir = folder.open().ok().flatten()?;
        // A command that is at work right now has the lock, and may be about to pin the link. This very
        // command may have it as well: then nothing changes any more.
        let lock = lock::try_lock(&dir).ok().flatten();
        let foreign = Foreign::open(&dir).ok().flatten()?;
        if Link::open(&dir).is_ok_and(|link| link.is_some()) {
            return None;
        }
        let mut own = interfaces.iter();
        let on = own.find(|interface| interface.index == foreign.interface)?;
        if on.xdp.is_some_and(|xdp| xdp.program_id == foreign.id) {
            return None;
        }
        if lock.is_some() || start.elapsed() > PATIENCE {
            let interface = &folder.interface;
            return Some(Error::Refused(format!(
                "limiter was ended on '{interface}' before it could put back {foreign}, which it ran in front of: `limiter detach {interface}` puts it back"
            )));
        }
        thread::sleep(lock::RETRY);
    }
}

/// Whether a folder of pins has a program that is to be put back.
pub(in crate::kernel) fn is_pinned(folder: &Dir) -> bool {
    find_pin(folder).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pins_name_says_where_the_program_was() {
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
