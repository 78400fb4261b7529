//! Reading files that users name.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

/// Reads a regular file of at most `most` bytes, also through symbolic links. A pipe or a device is refused, because
/// reading it may never end.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    // Without `O_NONBLOCK`, opening a pipe would wait for a writer.
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.read(true).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let kind = match kind.is_dir() {
            true => "a folder",
            false => "a pipe or a device",
        };
        return Err(io::Error::other(format!("{kind}, and not a regular file")));
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read, so the size is checked while reading.
    if file.take(most.saturating_add(1)).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            match most {
                0..1_048_576 => format!("longer than {most} bytes"),
                _ => format!("longer than {} MiB", most >> 20),
            },
        ));
    }
    Ok(bytes)
}

/// The longest text file in bytes. Four million prefixes fit.
pub const TEXT_MOST: u64 = 64 << 20;

/// Reads a regular file of text.
pub fn read_text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read(path, TEXT_MOST)?);
    text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not text in UTF-8"))
}

/// The time since a file was last written; zero if it is not known.
pub fn age(path: &Path) -> Duration {
    let written = path.metadata().and_then(|metadata| metadata.modified());
    written
        .ok()
        .and_then(|written| written.elapsed().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        for (path, kind) in [("/dev/zero", "a device"), ("/dev", "a folder")] {
            let why = read(path.as_ref(), 9).expect_err(path).to_string();
            assert!(why.contains(kind) && why.contains("regular"), "{why}");
        }
    }

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
