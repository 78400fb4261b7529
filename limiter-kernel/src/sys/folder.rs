//! Folders of bpffs, and the pins in them: the only way to reach pins.
//!
//! Other users may write to a bpffs that was mounted with its default mode, and an operator owns a folder in it. So
//! each folder is opened relative to its parent, never through a link and never onto another mount. Its owner must be
//! root or this user, or no other user may write to its parent: then the parent's owner has allowed it. Pins are opened
//! the same way. `bpf(2)` takes a path, so it gets one below `/proc/self/fd`, which leads to the open file.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat, renameat},
    sys::{
        stat::{Mode, mkdirat},
        statfs::{FsType, fstatfs},
    },
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};

use crate::{Error, Failed, Result, sys::bpf};

/// The mount point of bpffs on every system.
pub const BPFFS: &str = "/sys/fs/bpf";

/// `BPF_FS_MAGIC`, include/uapi/linux/magic.h.
const MAGIC: FsType = FsType(0xcafe_4a11);

/// Write permission for the group and for others.
const WRITABLE: u32 = 0o022;
/// The sticky bit: only a file's owner removes or renames it.
const STICKY: u32 = 0o1000;

/// An open folder.
#[derive(Clone, Debug)]
pub struct Dir(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    fd: OwnedFd,
    path: PathBuf,
    parent: Option<Dir>,
    /// File system and inode. Unlike a name, the pair identifies one folder.
    identity: (u64, u64),
    owner: u32,
    mode: u32,
}

/// A pin, found but not opened as an object.
#[derive(Debug)]
pub struct Pin {
    fd: OwnedFd,
    /// The user who owns it.
    pub owner: u32,
}

impl Pin {
    /// The path that leads to this pin, even if its name is removed.
    pub fn path(&self) -> PathBuf {
        of_descriptor(self.fd.as_fd())
    }
}

fn of_descriptor(fd: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

/// Opens a name, but not the target of a symbolic link. For a single name, this equals `openat2(2)` with
/// `RESOLVE_NO_SYMLINKS`; systemd forbids that call to services with `RestrictSUIDSGID=`.
fn open_at(folder: BorrowedFd<'_>, name: &str, flags: OFlag) -> Result<File, Errno> {
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(File::from)
}

fn stranger(path: &Path, why: &str) -> Error {
    Error::Stranger(path.to_owned(), why.to_owned())
}

/// Returns true if a user is root or this process's user.
fn is_ours(user: u32) -> bool {
    [0, geteuid().as_raw()].contains(&user)
}

impl Dir {
    /// The root of bpffs; `None` if none is mounted.
    pub fn root() -> Result<Option<Self>> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let file = match open_at(AT_FDCWD, BPFFS, flags) {
            Err(Errno::ENOENT) => return Ok(None),
            file => file.failed_at("opening", BPFFS)?,
        };
        if fstatfs(&file)
            .failed_at("opening", BPFFS)?
            .filesystem_type()
            != MAGIC
        {
            return Ok(None);
        }
        Self::new(file, BPFFS.into(), None).map(Some)
    }

    fn new(file: File, path: PathBuf, parent: Option<Self>) -> Result<Self> {
        let metadata = file.metadata().failed_at("reading", &path)?;
        Ok(Self(Arc::new(Opened {
            identity: (metadata.dev(), metadata.ino()),
            owner: metadata.uid(),
            mode: metadata.mode(),
            fd: file.into(),
            path,
            parent,
        })))
    }

    /// The folder at `path`, which is below the root of bpffs; `None` if it does not exist.
    pub fn walk(path: &Path) -> Result<Option<Self>> {
        let below = path.strip_prefix(BPFFS).unwrap_or(path);
        let mut found = Self::root()?;
        for component in below.components() {
            let (Some(folder), Component::Normal(name)) = (found, component) else {
                return Ok(None);
            };
            found = folder.open(&name.to_string_lossy())?;
        }
        Ok(found)
    }

    /// The folder `name` in this one; `None` if it does not exist.
    pub fn open(&self, name: &str) -> Result<Option<Self>> {
        let path = self.0.path.join(name);
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let file = match open_at(self.0.fd.as_fd(), name, flags) {
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                return Err(stranger(&path, "is not a folder, but a link or a file"));
            }
            file => file.failed_at("opening", &path)?,
        };
        let opened = Self::new(file, path, Some(self.clone()))?;
        if opened.0.identity.0 != self.0.identity.0 {
            return Err(stranger(&opened.0.path, "is on another mount"));
        }
        let owner = opened.0.owner;
        if !is_ours(owner) && self.0.mode & WRITABLE != 0 {
            let why = format!("belongs to user {owner}, and any user could have created it");
            return Err(stranger(&opened.0.path, &why));
        }
        Ok(Some(opened))
    }

    /// The folder `name` in this one, made if it does not exist. `None` if this folder is gone. Fails in a folder of
    /// another user, who could remove the new one.
    pub fn make(&self, name: &str) -> Result<Option<Self>> {
        self.check_own()?;
        match mkdirat(&self.0.fd, name, Mode::S_IRWXU) {
            Err(Errno::EEXIST) => {}
            Err(Errno::ENOENT) => return Ok(None),
            made => made.failed_at("making the folder", self.0.path.join(name))?,
        }
        let made = self.open(name)?;
        made.as_ref().map_or(Ok(()), Self::check_own)?;
        Ok(made)
    }

    /// Fails if a user other than root and this one may change the content of this folder, or of a parent.
    pub fn check_own(&self) -> Result<()> {
        let (parent, mode, owner) = (self.parent(), self.0.mode, self.0.owner);
        // In the root, others may have files, as long as they cannot touch those of limiter.
        let is_open = mode & WRITABLE != 0 && (parent.is_some() || mode & STICKY == 0);
        if is_open || !is_ours(owner) {
            return Err(Error::Refused(format!(
                "other users may change the pins in {} (owner: user {owner}, mode {:o}), so nothing was pinned there: run limiter as its owner, or `chown root` and `chmod 700` it",
                self.0.path.display(),
                mode & 0o7777
            )));
        }
        parent.map_or(Ok(()), Self::check_own)
    }

    /// Returns true if this user owns the folder.
    pub fn is_own(&self) -> bool {
        self.0.owner == geteuid().as_raw()
    }

    /// The path by which the folder was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The folder's parent; `None` for the root.
    pub fn parent(&self) -> Option<&Self> {
        self.0.parent.as_ref()
    }

    /// Returns true if the folder's path still leads to it.
    pub fn is_current(&self) -> Result<bool> {
        let now = Self::walk(&self.0.path)?;
        Ok(now.is_some_and(|now| now.0.identity == self.0.identity))
    }

    /// Opens another descriptor of the folder, which can be locked separately.
    pub fn reopen(&self) -> Result<File> {
        let opened = open_at(self.0.fd.as_fd(), ".", OFlag::O_RDONLY | OFlag::O_DIRECTORY);
        opened.failed_at("opening", &self.0.path)
    }

    /// The names in the folder.
    pub fn names(&self) -> Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let names = fs::read_dir(of_descriptor(self.0.fd.as_fd()))
            .and_then(|entries| entries.map(name).collect());
        names.failed_at("reading", &self.0.path)
    }

    /// The path for a new pin in the folder.
    pub fn at(&self, name: &str) -> PathBuf {
        of_descriptor(self.0.fd.as_fd()).join(name)
    }

    /// Pins an object as `name` in the folder.
    pub fn put(&self, name: &str, object: BorrowedFd<'_>) -> Result<()> {
        bpf::pin(object, &self.at(name)).failed_at("pinning", self.0.path.join(name))
    }

    /// The pin `name` in the folder.
    pub fn pin(&self, name: &str) -> io::Result<Pin> {
        let file = open_at(self.0.fd.as_fd(), name, OFlag::O_PATH)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.dev() != self.0.identity.0 {
            return Err(Errno::EINVAL.into());
        }
        Ok(Pin {
            owner: metadata.uid(),
            fd: file.into(),
        })
    }

    /// Opens the object that is pinned as `name`.
    pub fn object(&self, name: &str) -> io::Result<OwnedFd> {
        bpf::open_pin(&self.pin(name)?.path())
    }

    /// Removes the pin `name`, if a BPF object is pinned there. Returns whether it is gone.
    pub fn unpin(&self, name: &str) -> Result<bool> {
        let path = self.0.path.join(name);
        if let Err(error) = self.object(name) {
            return match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(true),
                // The kernel's errors for files that are no pins of objects.
                Some(libc::EACCES | libc::EINVAL | libc::ELOOP) => Ok(false),
                _ => Err(Error::path("removing", path, error)),
            };
        }
        match unlinkat(&self.0.fd, name, UnlinkatFlags::NoRemoveDir) {
            Err(Errno::ENOENT) => Ok(true),
            removed => removed.map(|()| true).failed_at("removing", path),
        }
    }

    /// Moves the pin `name` into another folder, under the same name.
    pub fn move_pin(&self, name: &str, into: &Self) -> io::Result<()> {
        Ok(renameat(&self.0.fd, name, &into.0.fd, name)?)
    }

    /// Removes this folder. Returns whether it is gone. A folder that is not empty stays.
    pub fn remove(&self) -> Result<bool> {
        let (Some(parent), Some(name)) = (&self.0.parent, self.0.path.file_name()) else {
            return Ok(false);
        };
        match unlinkat(&parent.0.fd, name, UnlinkatFlags::RemoveDir) {
            Err(Errno::ENOENT) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
            removed => removed.map(|()| true).failed_at("removing", &self.0.path),
        }
    }
}
