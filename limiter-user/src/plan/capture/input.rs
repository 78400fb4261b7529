//! The file or pipe that a capture is read from.

use std::{
    fs::File,
    io::{self, Cursor, ErrorKind, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Error, Result};

/// Bytes of the first read. The parser needs the whole first block in it, but a pipe delivers little at a time.
const FIRST: u64 = 64 << 10;

/// The system's error when reading failed. The parser does not pass it on.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    /// Converts the failure to an error of the capture `name`.
    pub fn take(&self, name: String) -> Error {
        let mut why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let why = why.take().unwrap_or_else(|| ErrorKind::Other.into());
        Error::Unread(name, why)
    }
}

/// A file or a pipe as input.
pub(super) struct Input {
    from: Box<dyn Read + Send>,
    failure: Failure,
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
    pub fn new(mut from: Box<dyn Read + Send>, failure: Failure) -> io::Result<Self> {
        let mut first = Vec::new();
        from.by_ref().take(FIRST).read_to_end(&mut first)?;
        Ok(Self {
            from: Box::new(Cursor::new(first).chain(from)),
            failure,
        })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.from.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    let failure = &self.failure.0;
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return Err(kind.into());
                }
                read => return read,
            }
        }
    }
}
