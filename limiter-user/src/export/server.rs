//! Limits connections: their number, their duration, and the size of requests.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use anyhow::anyhow;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::http::{self, Served};

/// Maximum number of connections. One more connection replaces the oldest one. Clients that keep idle connections
/// block no other client.
const CONNECTIONS: usize = 64;
/// Timeout for a complete request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Maximum duration of a connection. A client that does not read its answer holds a connection no longer than this.
const LIFE: Duration = Duration::from_secs(60);
/// Maximum size of a request, in bytes. The body of a request is never read.
const REQUEST_MAX: usize = 16 << 10;
/// Pause between attempts if no connection can be accepted, because no descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// The listening address, with the port that the kernel chose if none was given.
    pub address: SocketAddr,
}

impl Server {
    /// Starts to listen.
    pub async fn bind(address: SocketAddr) -> anyhow::Result<Self> {
        let failed = |source: io::Error| {
            anyhow!(
                "cannot listen on {address}: {source}: `ss -lntp` shows used ports; choose another address with --listen ADDR:PORT"
            )
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Returns true if the server answers only this machine. An IPv4 address may be written as IPv6.
    pub fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// Answers requests.
    pub async fn run(self, served: Served) -> ! {
        let router = http::router(served, self.is_local());
        let mut by_age: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            // The connection was closed before it was accepted, or no descriptor is left.
            let Ok((stream, _)) = self.listener.accept().await else {
                sleep(PAUSE).await;
                continue;
            };
            by_age.retain(|connection| !connection.is_finished());
            if by_age.len() >= CONNECTIONS
                && let Some(oldest) = by_age.pop_front()
            {
                oldest.abort();
            }
            let connection = tokio::spawn(serve(stream, router.clone()));
            by_age.push_back(connection.abort_handle());
        }
    }
}

/// Answers one request.
async fn serve(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(REQUEST_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client's errors are not reported.
    let _ = timeout(LIFE, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn loopback_address_is_local_in_every_notation() {
        for (address, is_local) in [
            ("127.9.9.9:0", true),
            ("[::ffff:127.0.0.1]:0", true),
            ("0.0.0.0:0", false),
        ] {
            let server = Server::bind(address.parse().unwrap()).await.unwrap();
            assert_eq!(server.is_local(), is_local, "{address}");
        }
    }
}
