//! A connection to one server, with bounded replies.

use std::{
    cell::RefCell,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::future::{FutureExt, select_ok};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline,
    RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster_async::Connect,
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, join, split},
    net::{TcpStream, UnixStream, lookup_host},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{options::Target, reply::Reply};

thread_local! {
    /// The store that the nodes of a cluster belong to. The client asks for connections to nodes with only an address.
    /// It does so on the thread of the request, and the agent has one thread.
    static NODES_AS: RefCell<Option<Arc<Target>>> = const { RefCell::new(None) };
}

/// A connection. Its background task ends with the last clone.
#[derive(Clone)]
pub(super) struct Link {
    connection: MultiplexedConnection,
    _driver: Arc<JoinSet<()>>,
}

impl Link {
    /// Connects to a server.
    pub async fn new(target: &Target) -> RedisResult<Self> {
        let timeout = Some(target.options.response_timeout);
        let config = AsyncConnectionConfig::new().set_response_timeout(timeout);
        Self::with(&target.info, target, config).await
    }

    /// Sets the store for connections to a cluster's nodes on this thread.
    pub fn nodes_as(target: Arc<Target>) {
        NODES_AS.set(Some(target));
    }

    async fn with(
        info: &ConnectionInfo,
        target: &Target,
        config: AsyncConnectionConfig,
    ) -> RedisResult<Self> {
        let opened = timeout(target.options.connect_timeout, open(info.addr(), target));
        let (from, to) = opened
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let bounded = Bounded {
            from,
            reply: Reply::default(),
        };
        let settings = info.redis_settings();
        let (connection, driver) =
            MultiplexedConnection::new_with_config(settings, join(bounded, to), config).await?;
        let mut task = JoinSet::new();
        task.spawn(driver);
        Ok(Self {
            connection,
            _driver: Arc::new(task),
        })
    }
}

impl Connect for Link {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        async move {
            let target = NODES_AS.with_borrow(Clone::clone);
            let target = target.ok_or_else(|| io::Error::other("no cluster is known"))?;
            Self::with(&info.into_connection_info()?, &target, config).await
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

type From = Box<dyn AsyncRead + Send + Unpin>;
type To = Box<dyn AsyncWrite + Send + Unpin>;

async fn open(address: &ConnectionAddr, target: &Target) -> io::Result<(From, To)> {
    match address {
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
        .map(|address| TcpStream::connect(address).boxed());
    let (stream, _) = select_ok(tries).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A stream from a server that checks the size of replies before the client reads them.
struct Bounded {
    from: From,
    reply: Reply,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.from).poll_read(cx, buffer))?;
        let read = self.reply.read(&buffer.filled()[before..]);
        Poll::Ready(read.map_err(io::Error::other))
    }
}
