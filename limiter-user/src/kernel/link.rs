//! The link: what holds the program on the interface. Pinned, it outlives every process.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use super::{
    error::{Error, Result},
    interface::XdpMode,
    sys::{self, LinkInfo},
};

/// An XDP link of this program.
#[derive(Debug)]
pub struct Link(OwnedFd);

impl Link {
    /// Puts `program` on the interface with index `interface`.
    pub fn create(program: BorrowedFd<'_>, interface: u32, mode: XdpMode) -> io::Result<Self> {
        let flags = match mode {
            XdpMode::Generic => sys::XDP_FLAGS_SKB_MODE,
            _ => sys::XDP_FLAGS_DRV_MODE,
        };
        sys::link_create(program, interface, flags).map(Self)
    }

    fn path(folder: &Path) -> PathBuf {
        folder.join("link")
    }

    /// Opens the link that is pinned in `folder`; none where there is no such pin.
    pub fn open(folder: &Path) -> Result<Option<Self>> {
        let path = Self::path(folder);
        match sys::open_pin(&path) {
            Ok(fd) => Ok(Some(Self(fd))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::path("opening", path, error)),
        }
    }

    /// Pins it in `folder`.
    pub fn pin(&self, folder: &Path) -> Result<()> {
        let path = Self::path(folder);
        sys::pin(self.0.as_fd(), &path).map_err(|error| Error::path("pinning", path, error))
    }

    /// Removes the pin in `folder`.
    pub fn unpin(folder: &Path) -> Result<()> {
        let path = Self::path(folder);
        std::fs::remove_file(&path).map_err(|error| Error::path("removing", path, error))
    }

    /// Program and interface.
    pub fn info(&self) -> Result<LinkInfo> {
        sys::link_info(self.0.as_fd())
            .map_err(|error| Error::system("asking about the link", error))
    }

    /// Swaps the program: each packet sees the old one or the new one.
    pub fn replace(&self, old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<()> {
        sys::link_update(self.0.as_fd(), new, old)
            .map_err(|error| Error::system("swapping the program", error))
    }

    /// Takes the program off the interface at once, even if another process holds the link. An
    /// interface that is gone has no program any more, and is no error.
    pub fn detach(&self) -> Result<()> {
        match sys::link_detach(self.0.as_fd()) {
            Err(error) if self.info()?.interface != 0 => {
                Err(Error::system("detaching the program", error))
            }
            _ => Ok(()),
        }
    }
}
