//! A connection to one server.

use std::{io, sync::Arc};

use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, RedisConnectionInfo, aio::MultiplexedConnection,
};
use rustls::pki_types::ServerName;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::fault;
use crate::store::{
    address::Place,
    error::Error,
    options::Target,
    socket::{Bounded, Stream, Traffic},
};

/// A connection. Its background task ends when it is dropped.
pub(super) struct Link {
    target: Arc<Target>,
    connection: MultiplexedConnection,
    traffic: Arc<Traffic>,
    _driver: JoinSet<()>,
}

impl Link {
    /// Begins a session over a stream to a server.
    pub async fn new(
        target: &Arc<Target>,
        settings: &RedisConnectionInfo,
        stream: Box<dyn Stream>,
        place: &Place,
    ) -> Result<Self, Error> {
        let traffic = Arc::new(Traffic::default());
        let unreachable = |error: io::Error| fault::fault(target, &error.into(), None);
        let beginning = async {
            let stream = secured(target, stream, place).await.map_err(unreachable)?;
            let bounded = Bounded {
                stream,
                traffic: Arc::clone(&traffic),
            };
            // The caller limits the time.
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let begun = MultiplexedConnection::new_with_config(settings, bounded, config).await;
            begun.map_err(|error| fault::fault(target, &error, traffic.error()))
        };
        let (connection, driver) = target.within_timeout(beginning).await?;
        let mut task = JoinSet::new();
        task.spawn(driver);
        Ok(Self {
            target: Arc::clone(target),
            connection,
            traffic,
            _driver: task,
        })
    }

    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let answer = async {
            let _asked = self.traffic.ask();
            let answer = command.query_async(&mut self.connection.clone()).await;
            answer.map_err(|error| fault::fault(&self.target, &error, self.traffic.error()))
        };
        self.target.within_timeout::<T>(answer).await
    }
}

async fn secured(
    target: &Target,
    stream: Box<dyn Stream>,
    place: &Place,
) -> io::Result<Box<dyn Stream>> {
    let Place::Tcp(host, _) = place else {
        return Ok(stream);
    };
    if !target.address.is_tls {
        return Ok(stream);
    }
    let tls = TlsConnector::from(Arc::new(target.tls().map_err(io::Error::other)?));
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    Ok(Box::new(tls.connect(name, stream).await?))
}
