//! Files: those that users name are read, and those of limiter's own are written, through the functions here.

mod folder;

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

pub(crate) use folder::Folder;
pub(crate) use limiter_feed::file::read;

/// The longest text file in bytes. Four million prefixes fit.
const TEXT_MOST: u64 = 64 << 20;

/// Reads a regular file of text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read(path, TEXT_MOST)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not text in UTF-8"))
}

/// Creates a file that users name, for its owner alone, whatever the umask is. It must not exist: another user may have
/// placed a link or a file of their own there. `create_new` follows no link.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    let file = options.mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn file_longer_than_the_bound_is_refused() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&vec![b'x'; 1 << 20]).expect("written");
        assert_eq!(read(file.path(), 1 << 20).expect("read").len(), 1 << 20);
        file.write_all(b"x").expect("written");
        let why = read(file.path(), 1 << 20).expect_err("too long");
        assert_eq!(why.to_string(), "longer than 1 MiB");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(b"\xff").expect("written");
        assert!(read_text(file.path()).is_err());
    }
}
