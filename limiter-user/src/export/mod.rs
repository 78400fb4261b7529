//! `limiter export`: the figures over HTTP, for Prometheus and for people. Read-only.
//!
//! `connections` takes connections in and bounds them, `http` answers, from what `collection` has read at most a
//! second ago; `history` keeps rates of the last two hours; `metrics` and `text` are the words of Prometheus.

mod collection;
mod connections;
mod families;
mod history;
mod http;
mod metrics;
mod text;

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
};

pub use collection::{Collection, Reading};
pub use connections::Server;
pub use http::is_local;
pub use text::wants_openmetrics;

/// Where it listens unless told otherwise: Prometheus's list of exporters gives away the ports below 10,000.
pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 10_546));

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}: {}", advice(.source))]
pub struct CannotListen {
    address: SocketAddr,
    source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => {
            "see what does with `ss -lntp`, or choose another with --listen ADDR:PORT"
        }
        ErrorKind::AddrNotAvailable => {
            "no interface of this network namespace has that address (`ip address` lists them): choose another with --listen ADDR:PORT"
        }
        _ => "choose another with --listen ADDR:PORT",
    }
}
