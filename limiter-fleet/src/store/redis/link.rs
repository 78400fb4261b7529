//! A connection to one server.

use std::{io, sync::Arc};

use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, RedisResult,
    aio::MultiplexedConnection,
};
use rustls::pki_types::ServerName;
use tokio::{net::UnixStream, task::JoinSet};
use tokio_rustls::TlsConnector;

use crate::store::{
    options::Target,
    socket::{Bounded, Stream, Traffic, tcp},
};

/// A connection. Its background task ends when it is dropped.
pub(super) struct Link {
    connection: MultiplexedConnection,
    traffic: Arc<Traffic>,
    _driver: JoinSet<()>,
}

impl Link {
    pub async fn new(target: &Target, info: &ConnectionInfo) -> RedisResult<Self> {
        let traffic = Arc::new(Traffic::default());
        let bounded = Bounded {
            stream: open(target, info).await?,
            traffic: Arc::clone(&traffic),
        };
        // The caller limits the time.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let settings = info.redis_settings();
        let (connection, driver) =
            MultiplexedConnection::new_with_config(settings, bounded, config).await?;
        let mut task = JoinSet::new();
        task.spawn(driver);
        Ok(Self {
            connection,
            traffic,
            _driver: task,
        })
    }

    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let _asked = self.traffic.ask();
        command.query_async(&mut self.connection.clone()).await
    }
}

async fn open(target: &Target, info: &ConnectionInfo) -> io::Result<Box<dyn Stream>> {
    Ok(match info.addr() {
        ConnectionAddr::Tcp(host, port) => Box::new(tcp(host, *port).await?),
        ConnectionAddr::TcpTls { host, port, .. } => {
            let tls = TlsConnector::from(Arc::new(target.tls().map_err(io::Error::other)?));
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            Box::new(tls.connect(name, tcp(host, *port).await?).await?)
        }
        ConnectionAddr::Unix(path) => Box::new(UnixStream::connect(path).await?),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}
