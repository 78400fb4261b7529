//! The link: what holds the program on the interface. Pinned, it outlives every process; on trial it
//! is not pinned, and lives as long as the process that holds it.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::SystemTime,
};

use crate::kernel::{
    error::{Error, Result},
    state::trial,
    sys::{
        bpf,
        bpf::LinkInfo,
        folder::{Dir, Kind},
        interface::XdpMode,
    },
};

/// The name of its pin.
pub const NAME: &str = "link";

/// An XDP link of this program.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    /// When it ends by itself, if it is on trial.
    try_until: Option<SystemTime>,
}

impl From<OwnedFd> for Link {
    fn from(fd: OwnedFd) -> Self {
        Self {
            fd,
            try_until: None,
        }
    }
}

impl Link {
    /// Puts `program` on the interface with index `interface`.
    pub fn create(program: BorrowedFd<'_>, interface: u32, mode: XdpMode) -> io::Result<Self> {
        let flags = match mode {
            XdpMode::Generic => bpf::XDP_FLAGS_SKB_MODE,
            _ => bpf::XDP_FLAGS_DRV_MODE,
        };
        bpf::link_create(program, interface, flags).map(Self::from)
    }

    /// Opens the link of the attachment whose pins are in `folder`: the pinned one or, on trial, the
    /// one that a process holds; none where there is neither.
    pub fn open(folder: &Dir) -> Result<Option<Self>> {
        if let Some(pinned) = Self::open_pin(folder)? {
            return Ok(Some(pinned));
        }
        match trial::ask(folder)? {
            Some(held) => Ok(Some(Self {
                fd: held.link,
                try_until: Some(held.until),
            })),
            // It may have been kept, and so pinned, this moment.
            None => Self::open_pin(folder),
        }
    }

    fn open_pin(folder: &Dir) -> Result<Option<Self>> {
        match folder.object(NAME) {
            Ok(fd) => Ok(Some(Self::from(fd))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::path("opening", folder.path().join(NAME), error)),
        }
    }

    /// Pins it in `folder`.
    pub fn pin(&self, folder: &Dir) -> Result<()> {
        bpf::pin(self.fd.as_fd(), &folder.at(NAME))
            .map_err(|error| Error::path("pinning", folder.path().join(NAME), error))
    }

    /// Removes the pin in `folder`.
    pub fn unpin(folder: &Dir) -> Result<()> {
        folder.unpin(NAME, Kind::Link).map(drop)
    }

    /// Whether it is pinned in `folder`.
    pub(in crate::kernel) fn is_pinned(folder: &Dir) -> bool {
        folder.pin(NAME).is_ok()
    }

    /// When it ends by itself, if it is on trial.
    #[must_use]
    pub fn try_until(&self) -> Option<SystemTime> {
        self.try_until
    }

    /// Another descriptor of it, for another process.
    pub(in crate::kernel) fn share(&self) -> Result<OwnedFd> {
        let shared = self.fd.try_clone();
        shared.map_err(|error| Error::system("sharing the link", error))
    }

    /// Program and interface.
    pub fn info(&self) -> Result<LinkInfo> {
        bpf::link_info(self.fd.as_fd())
            .map_err(|error| Error::system("asking about the link", error))
    }

    /// Swaps the program: each packet sees the old one or the new one. With `old`, only if that one runs.
    pub fn replace(&self, old: Option<BorrowedFd<'_>>, new: BorrowedFd<'_>) -> Result<()> {
        bpf::link_update(self.fd.as_fd(), new, old)
            .map_err(|error| Error::system("swapping the program", error))
    }

    /// Takes the program off the interface at once, even if another process holds the link. An
    /// interface that is gone has no program any more, and is no error.
    pub fn detach(&self) -> Result<()> {
        match bpf::link_detach(self.fd.as_fd()) {
            Err(error) if self.info()?.interface != 0 => {
                Err(Error::system("detaching the program", error))
            }
            _ => Ok(()),
        }
    }
}
