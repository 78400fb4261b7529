//! The file or pipe that a capture is read from.

use std::{
    fs::File,
    io::{self, Cursor, ErrorKind, Read},
    path::Path,
    sync::{Arc, OnceLock},
};

use super::{Error, Result};

/// Bytes of the first read. The parser needs the whole first block in it, but a pipe delivers little at a time.
const FIRST: u64 = 64 << 10;

/// A file or a pipe as input. Keeps the system's reason if reading fails, which the parser does not pass on.
pub(super) struct Input {
    from: Box<dyn Read + Send>,
    failure: Arc<OnceLock<String>>,
}

/// Opens the file; `-` is standard input. Also returns the input's name for messages.
pub(super) fn open(path: &Path) -> Result<(String, Box<dyn Read + Send>)> {
    if path.as_os_str() == "-" {
        return Ok(("standard input".to_owned(), Box::new(io::stdin())));
    }
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((name, Box::new(file))),
        Err(why) => Err(Error::Unopened(name, why)),
    }
}

impl Input {
    /// Creates the input, and reads its beginning.
    pub fn new(
        mut from: impl Read + Send + 'static,
        failure: Arc<OnceLock<String>>,
    ) -> io::Result<Self> {
        let mut first = Vec::new();
        from.by_ref().take(FIRST).read_to_end(&mut first)?;
        let from = Box::new(Cursor::new(first).chain(from));
        Ok(Self { from, failure })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.from.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    return read.inspect_err(|error| {
                        let _ = self.failure.set(error.to_string());
                    });
                }
            }
        }
    }
}
