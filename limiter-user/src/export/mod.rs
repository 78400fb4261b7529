//! `limiter export`: the counters over HTTP, for Prometheus and for people. Read-only.
//!
//! `server` accepts and limits connections. `http` answers from a reading of `collection` that is at most one second
//! old. `metrics` writes the counters for Prometheus.

mod collection;
mod http;
mod metrics;
mod server;

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
};

pub use collection::{Collection, Reading};
pub use http::is_local;
pub use server::Server;

/// Default address. Prometheus allocates the ports below 10,000 to its list of exporters.
pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 10_546));

/// The error if the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}: {}", advice(.source))]
pub struct CannotListen {
    address: SocketAddr,
    source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "`ss -lntp` shows the process that uses it; choose another address with --listen ADDR:PORT"
        }
        ErrorKind::AddrNotAvailable => {
            "no interface of this network namespace has that address (`ip address` lists them): choose another with --listen ADDR:PORT"
        }
        _ => "choose another with --listen ADDR:PORT",
    }
}
