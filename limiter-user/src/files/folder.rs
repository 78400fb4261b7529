//! Folders of limiter's own files.
//!
//! Their modes do not depend on the umask, and no other user reads or changes them. Each folder is opened relative to its
//! parent, and files relative to their folder, so that no link leads elsewhere.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat},
    sys::stat::{Mode, fchmod, fstat, fstatat, mkdirat},
    unistd::{UnlinkatFlags, fsync, geteuid, unlinkat},
};

/// Attempts to make a file, while another process removes it.
const TRIES: usize = 100;

/// A folder of this user, which no other user may enter.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder `names`, each in the one before, below `base`, which exists. Missing ones are made.
    /// Fails if one of them is a link, or belongs to another user. The error names it.
    pub(crate) fn make(base: &Path, names: &[&str]) -> io::Result<Self> {
        let mut folder = Self::base(base)?;
        for name in names {
            match mkdirat(&folder.fd, *name, Mode::S_IRWXU) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(named(&folder.path.join(name), error)),
            }
            folder = folder.below(name)?;
            folder.close_to_others(Mode::S_IWGRP | Mode::S_IWOTH)?;
        }
        folder.close_to_others(Mode::S_IRWXG | Mode::S_IRWXO)?;
        Ok(folder)
    }

    /// Opens the folder, as [`Self::make`] does; none if it does not exist.
    pub(crate) fn open(base: &Path, names: &[&str]) -> io::Result<Option<Self>> {
        let open = || {
            let base = Self::base(base)?;
            names
                .iter()
                .try_fold(base, |folder, name| folder.below(name))
        };
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn base(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = openat(AT_FDCWD, path, flags, Mode::empty());
        let path = path.to_owned();
        let fd = fd.map_err(|error| named(&path, error))?;
        Ok(Self { fd, path })
    }

    fn below(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty());
        let fd = fd.map_err(|error| match error {
            Errno::ENOTDIR | Errno::ELOOP => io::Error::other(format!(
                "{} is not a folder, but a link or a file: remove it",
                path.display()
            )),
            error => named(&path, error),
        })?;
        let owner = fstat(&fd)?.st_uid;
        if owner != geteuid().as_raw() {
            return Err(io::Error::other(format!(
                "{} belongs to user {owner}: run limiter as that user, or remove the folder",
                path.display()
            )));
        }
        Ok(Self { fd, path })
    }

    /// Takes permissions away.
    fn close_to_others(&self, bits: Mode) -> io::Result<()> {
        let mode = Mode::from_bits_truncate(fstat(&self.fd)?.st_mode);
        if mode.intersects(bits) {
            fchmod(&self.fd, mode - bits).map_err(|error| named(&self.path, error))?;
        }
        Ok(())
    }

    /// Opens the file `name` for reading and writing, made if it does not exist. A link, or anything else that is no file
    /// of this user alone, is removed first: another user has put it there while the folder was open to others.
    pub(crate) fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let private = Mode::S_IRUSR | Mode::S_IWUSR;
        let file_error = |error| named(&self.path.join(name), error);
        for _ in 0..TRIES {
            match openat(&self.fd, name, flags, Mode::empty()) {
                Ok(fd) => {
                    let file = File::from(fd);
                    let metadata = file.metadata()?;
                    let is_own = metadata.uid() == geteuid().as_raw() && metadata.nlink() == 1;
                    if is_own && metadata.is_file() {
                        fchmod(&file, private).map_err(file_error)?;
                        return Ok(file);
                    }
                }
                Err(Errno::ENOENT) => {
                    match openat(
                        &self.fd,
                        name,
                        flags | OFlag::O_CREAT | OFlag::O_EXCL,
                        private,
                    ) {
                        Err(Errno::EEXIST) => continue,
                        fd => {
                            let file = File::from(fd.map_err(file_error)?);
                            fchmod(&file, private).map_err(file_error)?;
                            return Ok(file);
                        }
                    }
                }
                Err(Errno::ELOOP | Errno::ENXIO | Errno::EACCES) => {}
                Err(error) => return Err(file_error(error)),
            }
            self.remove(name)?;
        }
        Err(file_error(Errno::EBUSY))
    }

    /// Opens the regular file `name` for reading.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.fd, name, flags, Mode::empty())?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Replaces the file `name` in one step: after a crash, it has the old or the new content.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        let mut file = self.file(&new)?;
        file.set_len(0)?;
        file.write_all(content)?;
        file.sync_all()?;
        renameat(&self.fd, new.as_str(), &self.fd, name)
            .map_err(|error| named(&self.path.join(name), error))?;
        fsync(&self.fd).map_err(|error| named(&self.path, error))
    }

    /// The path of a file.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns true if `name` still leads to this open file.
    pub(crate) fn leads_to(&self, name: &str, file: impl AsFd) -> bool {
        let now = fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let both = now.and_then(|now| Ok((now, fstat(file)?)));
        both.is_ok_and(|(now, file)| (now.st_dev, now.st_ino) == (file.st_dev, file.st_ino))
    }

    /// Removes a file. One that is gone is removed.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(named(&self.path.join(name), error)),
        }
    }

    /// Removes the files that were not written for the longest time, if there are more than `most` besides `new`.
    pub(crate) fn bound(&self, most: usize, new: &str) {
        let names = self.names().unwrap_or_default();
        let written = |name: &String| self.path_of(name).symlink_metadata()?.modified();
        let others = names.iter().filter(|name| *name != new);
        let mut others: Vec<_> = others
            .filter_map(|name| Some((written(name).ok()?, name)))
            .collect();
        others.sort_unstable();
        let many = others.len().saturating_sub(most);
        for (_, name) in others.into_iter().take(many) {
            // The next command tries again.
            let _ = self.remove(name);
        }
    }

    /// The names in the folder.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }
}

/// An error that names its file.
fn named(path: &Path, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().expect("there").mode() & 0o7777
    }

    fn opened(path: &Path, permissions: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(permissions)).expect("allowed");
    }

    #[test]
    fn folders_and_files_are_closed_to_others_even_if_they_were_open() {
        let base = tempfile::tempdir().expect("a folder");
        let path = base.path().join("one/two");
        let make = || Folder::make(base.path(), &["one", "two"]);
        assert!(
            Folder::open(base.path(), &["one", "two"])
                .expect("allowed")
                .is_none()
        );
        make().expect("made").file("file").expect("made");
        assert_eq!([mode(&path), mode(&path.join("file"))], [0o700, 0o600]);
        for part in ["one", "one/two", "one/two/file"] {
            opened(&base.path().join(part), 0o777);
        }
        make().expect("made").file("file").expect("made");
        let outer_mode = mode(&base.path().join("one"));
        assert_eq!(
            [outer_mode, mode(&path), mode(&path.join("file"))],
            [0o755, 0o700, 0o600]
        );
    }

    #[test]
    fn links_are_not_followed() {
        let base = tempfile::tempdir().expect("a folder");
        let folder = Folder::make(base.path(), &["own"]).expect("made");
        let (other, own) = (base.path().join("other"), base.path().join("own"));
        fs::write(&other, "kept").expect("written");
        symlink(&other, own.join("soft")).expect("linked");
        fs::hard_link(&other, own.join("hard")).expect("linked");
        nix::unistd::mkfifo(&own.join("pipe"), Mode::S_IRWXU).expect("made");
        for name in ["soft", "hard", "pipe", "new"] {
            let mut file = folder.file(name).expect(name);
            file.set_len(0).expect("written");
            file.write_all(b"x").expect("written");
            assert!(folder.leads_to(name, &file), "{name}");
            assert_eq!(fs::read(own.join(name)).expect(name), b"x");
        }
        assert_eq!(fs::read(&other).expect("there"), b"kept");
        symlink(&own, base.path().join("link")).expect("linked");
        let why = Folder::make(base.path(), &["link"]).expect_err("a link");
        assert!(why.to_string().contains("link is not a folder"), "{why}");
    }
}
