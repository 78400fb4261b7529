//! The link, which holds the program on the interface. Once pinned, it outlives every process.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use limiter_config::Direction;

use crate::{
    Error, Failed, Result,
    sys::{
        Dir, LinkInfo, XdpMode,
        bpf::{self, BPF_TCX_EGRESS, BPF_TCX_INGRESS, BPF_XDP, Place},
    },
};

/// The name of the link's pin.
pub const NAME: &str = "link";

/// A link of this program.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Puts `program` on the interface with index `interface`.
    pub fn create(program: BorrowedFd<'_>, interface: u32, mode: XdpMode) -> io::Result<Self> {
        bpf::link_create(program, interface, BPF_XDP, (mode.flag(), 0)).map(Self)
    }

    /// Puts `program` on the interface with index `interface` in the network stack, in front of all other programs or at
    /// `place`.
    pub fn create_tc(
        program: BorrowedFd<'_>,
        interface: u32,
        direction: Direction,
        place: Option<Place>,
    ) -> io::Result<Self> {
        let hook = match direction {
            Direction::In => BPF_TCX_INGRESS,
            Direction::Out => BPF_TCX_EGRESS,
        };
        bpf::link_create(program, interface, hook, Place::flags(place)).map(Self)
    }

    /// Opens the link that is pinned in `folder`; `None` if there is none.
    pub fn open(folder: &Dir) -> Result<Option<Self>> {
        match folder.object(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            fd => fd
                .map(|fd| Some(Self(fd)))
                .failed_at("opening", folder.path().join(NAME)),
        }
    }

    /// Pins the link in `folder`.
    pub fn pin(&self, folder: &Dir) -> Result<()> {
        folder.put(NAME, self.0.as_fd())
    }

    /// Removes the link's pin in `folder`.
    pub fn unpin(folder: &Dir) -> Result<()> {
        folder.unpin(NAME).map(drop)
    }

    /// The link's program and interface.
    pub fn info(&self) -> Result<LinkInfo> {
        bpf::link_info(self.0.as_fd()).failed("reading the link's state")
    }

    /// Swaps the program: each packet sees the old one or the new one. With `old`, only if `old` runs.
    pub fn replace(&self, old: Option<BorrowedFd<'_>>, new: BorrowedFd<'_>) -> Result<()> {
        bpf::link_update(self.0.as_fd(), new, old).failed("replacing the program")
    }

    /// Takes the program off the interface at once, even if another process holds the link. It is no error if the
    /// interface is gone: it has no program any more.
    pub fn detach(&self) -> Result<()> {
        match bpf::link_detach(self.0.as_fd()) {
            Err(error) if self.info()?.interface != 0 => {
                Err(Error::system("detaching the program", error))
            }
            _ => Ok(()),
        }
    }
}
