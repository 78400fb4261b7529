//! A connection to one server, whose replies are bounded.

use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::future::{FutureExt, select_ok};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline,
    RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster_async::Connect,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream, lookup_host},
    task::AbortHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::reply::Reply;

/// How a connection is made.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub tls: Option<Arc<ClientConfig>>,
    pub connect_timeout: Duration,
    pub response_timeout: Duration,
}

thread_local! {
    /// The way to the nodes of a cluster. The client calls for connections to them by itself, with nothing but an address;
    /// it does so on the thread of whoever asks the store, as the agent has one thread.
    static TO_NODES: RefCell<Option<Way>> = const { RefCell::new(None) };
}

/// A connection. The task that drives it ends with the last clone.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    _driver: Arc<Driver>,
}

struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    /// Connects to a server.
    pub async fn new(info: &ConnectionInfo, way: &Way) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(way.response_timeout));
        Self::with(info, way, config).await
    }

    /// Connections to nodes of a cluster are made so from now on, on this thread.
    pub fn nodes_by(way: Way) {
        TO_NODES.set(Some(way));
    }

    async fn with(
        info: &ConnectionInfo,
        way: &Way,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        let opened = timeout(way.connect_timeout, open(info.addr(), way));
        let stream = Bounded {
            stream: opened
                .await
                .map_err(|_| io::ErrorKind::TimedOut)
                .map_err(io::Error::from)??,
            reply: Reply::default(),
        };
        let settings = info.redis_settings();
        let (connection, driver) =
            MultiplexedConnection::new_with_config(settings, stream, config).await?;
        Ok(Self {
            connection,
            _driver: Arc::new(Driver(tokio::spawn(driver).abort_handle())),
        })
    }
}

impl Connect for Link {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        async move {
            let way = TO_NODES.with_borrow(Clone::clone);
            let way = way.ok_or_else(|| io::Error::other("the way to a cluster is not known"))?;
            Self::with(&info.into_connection_info()?, &way, config).await
        }
        .boxed()
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.connection.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

/// What a connection goes through.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn open(address: &ConnectionAddr, way: &Way) -> io::Result<Box<dyn Stream>> {
    match address {
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
        ConnectionAddr::TcpTls { host, port, .. } => {
            let tls = way.tls.clone().ok_or(io::ErrorKind::Unsupported)?;
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let tls = TlsConnector::from(tls);
            Ok(Box::new(tls.connect(name, tcp(host, *port).await?).await?))
        }
        ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Connects to whichever address of a name answers first.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::other("failed to lookup address: there is none"));
    }
    let tries = addresses
        .into_iter()
        .map(|address| TcpStream::connect(address).boxed());
    let (stream, _) = select_ok(tries).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A stream whose replies are looked at before anybody reads them.
struct Bounded {
    stream: Box<dyn Stream>,
    reply: Reply,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = self.reply.read(&buffer.filled()[before..]);
        Poll::Ready(read.map_err(io::Error::other))
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
