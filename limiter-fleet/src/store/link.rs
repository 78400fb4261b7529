//! A connection to one server, with bounded replies.
//!
//! The client's parser buffers everything that a server sends until a reply is complete. In memory, a hostile reply
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
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, FromRedisValue, RedisResult,
    aio::MultiplexedConnection,
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, join, split},
    net::{TcpStream, UnixStream, lookup_host},
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use super::options::Target;

/// Maximum bytes of a reply. The longest is a part of a list: `lists.rs` asks for 500 prefixes of at most 375 bytes.
const REPLY: usize = 256 << 10;

/// A connection. Its background task ends with the last clone.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    traffic: Arc<Traffic>,
    _driver: Arc<JoinSet<()>>,
}

/// The replies under way.
#[derive(Default)]
struct Traffic {
    /// Number of requests without a reply.
    asked: AtomicUsize,
    /// Bytes received since the last complete reply.
    received: AtomicUsize,
}

/// A request under way. Ends when it is dropped.
struct Asked<'a>(&'a Traffic);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Relaxed);
        self.0.received.store(0, Relaxed);
    }
}

impl Link {
    /// Connects to a server.
    pub async fn new(target: &Target) -> RedisResult<Self> {
        let (from, to) = open(target).await?;
        let traffic = Arc::new(Traffic::default());
        let bounded = Bounded {
            from,
            traffic: Arc::clone(&traffic),
        };
        // The caller limits the time.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let settings = target.info.redis_settings();
        let (connection, driver) =
            MultiplexedConnection::new_with_config(settings, join(bounded, to), config).await?;
        let mut task = JoinSet::new();
        task.spawn(driver);
        Ok(Self {
            connection,
            traffic,
            _driver: Arc::new(task),
        })
    }

    /// Sends a command, and waits for the reply.
    pub async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        self.traffic.asked.fetch_add(1, Relaxed);
        let _asked = Asked(&self.traffic);
        command.query_async(&mut self.connection).await
    }
}

type From = Box<dyn AsyncRead + Send + Unpin>;
type To = Box<dyn AsyncWrite + Send + Unpin>;

async fn open(target: &Target) -> io::Result<(From, To)> {
    match target.info.addr() {
        ConnectionAddr::Tcp(host, port) => Ok(halves(tcp(host, *port).await?)),
        ConnectionAddr::TcpTls { host, port, .. } => {
            let tls = TlsConnector::from(Arc::new(target.tls().map_err(io::Error::other)?));
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            Ok(halves(tls.connect(name, tcp(host, *port).await?).await?))
        }
        ConnectionAddr::Unix(path) => Ok(halves(UnixStream::connect(path).await?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn halves(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> (From, To) {
    let (from, to) = split(stream);
    (Box::new(from), Box::new(to))
}

/// Connects to the address of the name that answers first.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::other("failed to lookup address: there is none"));
    }
    let tries = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _) = select_ok(tries).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The reason why a reply is refused.
pub(super) const TOO_LONG: &str = "a reply that is too long";

/// A stream from a server that refuses replies that are too long.
struct Bounded {
    from: From,
    traffic: Arc<Traffic>,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.from).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        let received = self.traffic.received.fetch_add(read, Relaxed) + read;
        if received > REPLY * self.traffic.asked.load(Relaxed).max(1) {
            return Poll::Ready(Err(io::Error::other(TOO_LONG)));
        }
        Poll::Ready(Ok(()))
    }
}
