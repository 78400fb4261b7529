//! HTTP over a Unix socket.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
};

use ureq::{
    Error,
    unversioned::transport::{
        Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
    },
};

/// Connects to a socket. A feed has no privileges, so that another process may have to do it.
pub type Dial = Arc<dyn Fn() -> io::Result<UnixStream> + Send + Sync>;

/// Connects each request to one socket, whatever host its URL names.
pub struct Socket(pub Dial);

impl fmt::Debug for Socket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Socket")
    }
}

impl Connector<()> for Socket {
    type Out = Stream;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Stream>, Error> {
        let config = details.config;
        Ok(Some(Stream {
            stream: (self.0)()?,
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
        }))
    }
}

/// A connection for one request.
#[derive(Debug)]
pub struct Stream {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for Stream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let longest = timeout.not_zero().map(|longest| *longest);
        self.stream.set_write_timeout(longest)?;
        let sent = self.stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|error| named(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let longest = timeout.not_zero().map(|longest| *longest);
        self.stream.set_read_timeout(longest)?;
        let input = self.buffers.input_append_buf();
        let amount = loop {
            match self.stream.read(input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let amount = amount.map_err(|error| named(error, &timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // Each request has a connection of its own.
        false
    }
}

/// The error of a connection, which may be that time is up.
fn named(error: io::Error, timeout: &NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}
