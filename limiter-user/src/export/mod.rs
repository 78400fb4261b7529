//! `limiter export`: the counters over HTTP, for Prometheus and for people. Read-only.
//!
//! `server` accepts and limits connections. `http` answers from a reading of `collection` that is at most one second
//! old. `history` has the rates of the last two hours. `exposition` writes the `metrics` for Prometheus, by their `samples`. `label` reads a label that users add.
//! `socket` answers commands of users without privileges.

mod collection;
mod exposition;
mod history;
mod http;
mod label;
mod metrics;
mod samples;
mod server;
mod socket;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

pub use collection::{Collection, Reading};
pub use exposition::Format;
pub use http::{Served, is_local};
pub use label::label;
pub use server::Server;
pub use socket::Socket;

/// Default address. Prometheus allocates the ports below 10,000 to its list of exporters.
pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 10_546));
