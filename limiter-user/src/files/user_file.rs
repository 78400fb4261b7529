//! Files that users name, and that limiter changes.

use std::{
    fs::{self, File, Metadata, Permissions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use limiter_config::files::read_text;
use tempfile::{Builder, NamedTempFile};

/// A file as it was read. Symbolic links were followed.
#[derive(Debug)]
pub(crate) struct UserFile {
    /// The path that the user named.
    pub(crate) path: PathBuf,
    /// The path without links.
    real: PathBuf,
    /// The content.
    pub(crate) text: String,
}

/// The failure of a change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWritten {
    /// Another program has changed the file since it was read.
    #[error("it was changed meanwhile")]
    Changed,
    /// The file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl UserFile {
    /// Reads a file; none if there is none.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(real) => Ok(Some(Self {
                text: read_text(&real)?,
                path: path.to_owned(),
                real,
            })),
        }
    }

    /// Returns true if the file has another content now, or is gone.
    pub(crate) fn is_changed(&self) -> bool {
        !read_text(&self.real).is_ok_and(|text| text == self.text)
    }

    /// Replaces the content in one step: after a crash, the file has the old or the new one. Owner and mode stay. With
    /// `anyway`, a change by another program since the file was read is lost.
    pub(crate) fn replace(&self, text: &str, anyway: bool) -> Result<(), NotWritten> {
        let old = fs::metadata(&self.real)?;
        let new = beside(&self.real, text, Some(&old))?;
        if !anyway && self.is_changed() {
            return Err(NotWritten::Changed);
        }
        new.persist(&self.real).map_err(|error| error.error)?;
        settle(&self.real)?;
        Ok(())
    }
}

/// Makes a file for its owner alone. It must not exist.
pub(crate) fn create_whole(path: &Path, text: &str) -> io::Result<()> {
    let new = beside(path, text, None)?;
    new.persist_noclobber(path).map_err(|error| error.error)?;
    settle(path)
}

/// A file with this text in the folder of `path`, on the disk, with the owner and the mode of another one.
fn beside(path: &Path, text: &str, like: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut new = Builder::new()
        .prefix(".limiter-")
        .tempfile_in(folder(path))?;
    new.write_all(text.as_bytes())?;
    if let Some(like) = like {
        let own = new.as_file().metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(new.as_file(), Some(like.uid()), Some(like.gid()))?;
        }
        let mode = Permissions::from_mode(like.mode() & 0o7777);
        new.as_file().set_permissions(mode)?;
    }
    new.as_file().sync_all()?;
    Ok(new)
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Waits until the folder of a new name is on the disk.
fn settle(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn replaced_file_keeps_its_mode_and_its_links() {
        let base = tempfile::tempdir().expect("a folder");
        let (file, link) = (base.path().join("file"), base.path().join("link"));
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("allowed");
        symlink("file", &link).expect("linked");
        let read = UserFile::read(&link).expect("read").expect("there");
        read.replace("new", false).expect("replaced");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("there"), "new");
        assert_eq!(file.metadata().expect("there").mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(base.path()).expect("a folder").count(), 2);
    }

    #[test]
    fn change_by_another_program_is_noticed() {
        let base = tempfile::tempdir().expect("a folder");
        let file = base.path().join("file");
        create_whole(&file, "old").expect("made");
        assert_eq!(file.metadata().expect("there").mode() & 0o7777, 0o600);
        assert!(create_whole(&file, "other").is_err());
        let read = UserFile::read(&file).expect("read").expect("there");
        fs::write(&file, "theirs").expect("written");
        let refused = read.replace("new", false);
        assert!(matches!(refused, Err(NotWritten::Changed)), "{refused:?}");
        assert_eq!(fs::read_to_string(&file).expect("there"), "theirs");
        read.replace("new", true).expect("replaced");
        assert_eq!(fs::read_to_string(&file).expect("there"), "new");
        fs::remove_file(&file).expect("removed");
        assert!(read.is_changed());
        assert!(UserFile::read(&file).expect("read").is_none());
    }
}
