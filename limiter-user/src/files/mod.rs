//! Files that are written: those that users name, and limiter's own.

mod folder;
mod place;
mod user_file;

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

pub(crate) use folder::Folder;
pub(crate) use place::{Place, name_of};
pub(crate) use user_file::{NotWritten, UserFile, create_whole};

/// Creates a file that users name, for its owner alone, whatever the umask is. It must not exist: another user may have
/// placed a link or a file of their own there. `create_new` follows no link.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    let file = options.mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}
