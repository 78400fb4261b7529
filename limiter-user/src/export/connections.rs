//! Connections: how many, for how long, and how much is read of each.

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

/// Connections at the same time. The one after that takes the place of the oldest: clients that hold connections
/// without asking for anything keep nobody else out.
const CONNECTIONS: usize = 64;
/// For a whole request to come in, and until the next one begins.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// A connection's life, so that a client which does not read what it asked for holds none for longer.
const LIFE: Duration = Duration::from_secs(60);
/// For the last answer of a connection that is being closed.
const CLOSING_TIME: Duration = Duration::from_secs(2);
/// Of a request, in bytes; no request has a body that would be read.
const REQUEST_MAX: usize = 16 << 10;
/// Between attempts where no connection can be taken in, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Begins to listen.
    pub async fn bind(address: SocketAddr) -> Result<Self, CannotListen> {
        let bind = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bind.await
            .map_err(|source: io::Error| CannotListen { address, source })
    }

    /// Where it listens, with the port that the kernel chose where none was given.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether only this machine is answered. An address of IPv4 may be written as one of IPv6.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Answers until `stop` is ready; then what has been asked already.
    pub async fn run(self, collection: Collection, stop: impl Future<Output = ()>) {
        let router = http::router(collection, self.is_local());
        let (closing, closed) = watch::channel(());
        let mut connections = Connections::default();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                // One has ended.
                Some(_) = connections.tasks.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => connections.begin(serve(stream, router.clone(), closed.clone())),
                    // One that was gone before it was taken in, or no descriptor is left.
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
        drop((self.listener, closing));
        while connections.tasks.join_next().await.is_some() {}
    }
}

/// Those that are open.
#[derive(Debug, Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// The oldest first.
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
    // Answers are short.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(REQUEST_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        // What a client does wrong is of no interest.
        _ = &mut connection => return,
        () = sleep(LIFE) => {}
        // The other end is dropped when the server stops.
        _ = closing.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(CLOSING_TIME, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_of_this_machine_is_one_however_it_is_written() {
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
