//! Limits connections: their number, their duration, and the size of requests.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{CannotListen, collection::Collection, http};

/// Maximum number of connections. One more connection replaces the oldest one. Clients that keep idle connections
/// block no other client.
const CONNECTIONS: usize = 64;
/// Timeout for a complete request, and for the next one to begin.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Maximum duration of a connection. A client that does not read its answers holds a connection no longer than this.
const LIFE: Duration = Duration::from_secs(60);
/// Time for the last answer of a connection that is being closed.
const CLOSING_TIME: Duration = Duration::from_secs(2);
/// Maximum size of a request, in bytes. The body of a request is never read.
const REQUEST_MAX: usize = 16 << 10;
/// Pause between attempts if no connection can be accepted, because no descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Starts to listen.
    pub async fn bind(address: SocketAddr) -> Result<Self, CannotListen> {
        let bind = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bind.await
            .map_err(|source: io::Error| CannotListen { address, source })
    }

    /// The listening address, with the port that the kernel chose if none was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true if the server answers only this machine. An IPv4 address may be written as IPv6.
    pub fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Answers requests until `stop` is ready, then finishes the open requests.
    pub async fn run(self, collection: Collection, stop: impl Future<Output = ()>) {
        let router = http::router(collection, self.is_local());
        let (closing, closed) = watch::channel(());
        let mut connections = Connections::default();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                // A connection has ended.
                Some(_) = connections.tasks.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => connections.begin(serve(stream, router.clone(), closed.clone())),
                    // The connection was closed before it was accepted, or no descriptor is left.
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
        drop((self.listener, closing));
        while connections.tasks.join_next().await.is_some() {}
    }
}

/// The open connections.
#[derive(Debug, Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// The connections' tasks, oldest first.
    by_age: VecDeque<AbortHandle>,
}

impl Connections {
    fn begin(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        self.by_age.retain(|task| !task.is_finished());
        if self.by_age.len() >= CONNECTIONS
            && let Some(oldest) = self.by_age.pop_front()
        {
            oldest.abort();
        }
        self.by_age.push_back(self.tasks.spawn(connection));
    }
}

async fn serve(stream: TcpStream, router: Router, mut closing: watch::Receiver<()>) {
    // Answers are short: send them without delay.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(REQUEST_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        // A client's errors are not reported.
        _ = &mut connection => return,
        () = sleep(LIFE) => {}
        // The server drops the other end when it stops.
        _ = closing.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(CLOSING_TIME, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn loopback_address_is_local_in_every_notation() {
        let mut local = Vec::new();
        for address in [
            "127.0.0.1:0",
            "[::ffff:127.0.0.1]:0",
            "127.9.9.9:0",
            "0.0.0.0:0",
        ] {
            let server = Server::bind(address.parse().unwrap()).await;
            local.push(server.unwrap().is_local());
        }
        assert_eq!(local, [true, true, true, false]);
    }
}
