//! Sockets to a server, with bounded replies.
//!
//! The clients' parsers buffer everything that a server sends until a reply is complete. In memory, a hostile reply
//! takes up to 45 times its length.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum bytes of a reply. The longest is a part of a list: `stored_lists.rs` asks for 500 prefixes of at most 375 bytes.
const REPLY: usize = 256 << 10;

/// The reason why a reply is refused.
pub(super) const TOO_LONG: &str = "a reply that is too long";

#[derive(Default)]
pub(super) struct Traffic {
    /// Number of requests without a reply.
    requests: AtomicUsize,
    /// Bytes received since the last complete reply.
    received: AtomicUsize,
    /// The beginning of the last reply, if it is an error of Redis.
    error: Mutex<Option<String>>,
}

impl Traffic {
    pub fn ask(&self) -> Request<'_> {
        self.requests.fetch_add(1, Relaxed);
        Request(self)
    }

    /// The error of Redis that came last. The client drops those that come before the first request, after which the
    /// server closes the connection.
    pub fn error(&self) -> Option<String> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.clone()
    }

    fn note(&self, reply: &[u8]) {
        const LONGEST: usize = 400;
        let line = reply.strip_prefix(b"-");
        let line = line.and_then(|line| {
            line[..line.len().min(LONGEST)]
                .split(|byte| *byte == b'\r')
                .next()
        });
        let line = line.map(|line| String::from_utf8_lossy(line).into_owned());
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }
}

/// A request under way. Ends when it is dropped.
pub(super) struct Request<'a>(&'a Traffic);

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Relaxed);
        self.0.received.store(0, Relaxed);
    }
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream to a server that refuses replies that are too long.
pub(super) struct Bounded {
    pub stream: Box<dyn Stream>,
    pub traffic: Arc<Traffic>,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        let received = self.traffic.received.fetch_add(read, Relaxed) + read;
        if received == read && read > 0 {
            self.traffic.note(&buffer.filled()[before..]);
        }
        if received > REPLY * self.traffic.requests.load(Relaxed).max(1) {
            return Poll::Ready(Err(io::Error::other(TOO_LONG)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
