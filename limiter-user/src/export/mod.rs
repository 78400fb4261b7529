//! `limiter export`: the counters over HTTP, for Prometheus and for people. Read-only.
//!
//! `server` accepts and limits connections. `http` answers from a reading of `collection` that is at most one second
//! old. `exposition` writes the `metrics` for Prometheus, by their `samples`.

mod collection;
mod exposition;
mod http;
mod metrics;
mod samples;
mod server;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

pub use collection::{Collection, Reading};
pub use http::is_local;
pub use server::Server;

/// Default address. Prometheus allocates the ports below 10,000 to its list of exporters.
pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 10_546));
