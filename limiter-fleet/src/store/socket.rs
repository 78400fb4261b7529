//! Sockets to a server, with bounded replies.
//!
//! The clients' parsers buffer everything that a server sends until a reply is complete. In memory, a hostile reply
//! takes up to 45 times its length.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use futures_util::future::select_ok;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, lookup_host},
};

/// Maximum bytes of a reply. The longest is a part of a list: `stored_lists.rs` asks for 500 prefixes of at most 375 bytes.
const REPLY: usize = 256 << 10;

/// The reason why a reply is refused.
pub(super) const TOO_LONG: &str = "a reply that is too long";

/// Connects to the address of the name that answers first.
pub(super) async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::other("failed to lookup address: there is none"));
    }
    let addresses = addresses.into_iter();
    let tries = addresses.map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _) = select_ok(tries).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[derive(Default)]
pub(super) struct Traffic {
    /// Number of requests without a reply.
    requests: AtomicUsize,
    /// Bytes received since the last complete reply.
    received: AtomicUsize,
}

impl Traffic {
    pub fn ask(&self) -> Request<'_> {
        self.requests.fetch_add(1, Relaxed);
        Request(self)
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
