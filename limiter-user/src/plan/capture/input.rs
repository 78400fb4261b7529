//! Where a capture is read from.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Error, Result};

/// What the system said when reading failed: the parser keeps it to itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    /// As an error of the capture that is called `name`.
    pub fn take(&self, name: String) -> Error {
        let mut why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let why = why.take().unwrap_or_else(|| io::ErrorKind::Other.into());
        Error::Unread { name, why }
    }
}

/// A file or a pipe.
pub(super) struct Input {
    from: Box<dyn Read + Send>,
    failure: Failure,
    begun: bool,
}

/// Opens the file; `-` is standard input. Gives what to call it, too.
pub(super) fn open(path: &Path) -> Result<(String, Input)> {
    if path.as_os_str() == "-" {
        return Ok((
            "standard input".to_owned(),
            Input::new(Box::new(io::stdin())),
        ));
    }
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((name, Input::new(Box::new(file)))),
        Err(why) => Err(Error::Unopened { name, why }),
    }
}

impl Input {
    pub fn new(from: Box<dyn Read + Send>) -> Self {
        Self {
            from,
            failure: Failure::default(),
            begun: false,
        }
    }

    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// At least `wanted` bytes, if so much comes.
    fn fill(&mut self, buffer: &mut [u8], wanted: usize) -> io::Result<usize> {
        let mut filled = 0;
        while filled < wanted {
            match self.from.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Read for Input {
    /// The parser wants to see the whole of the first block in what is read first, and a pipe gives a little
    /// at a time.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const FIRST: usize = 64 << 10;
        let wanted = if self.begun { 1 } else { FIRST };
        self.begun = true;
        let wanted = wanted.min(buffer.len());
        self.fill(buffer, wanted).map_err(|error| {
            let kind = error.kind();
            let mut failure = self
                .failure
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *failure = Some(error);
            kind.into()
        })
    }
}
