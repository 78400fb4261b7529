//! Virtual hosts on this machine: network namespaces joined by a veth pair, made through netlink.
//!
//! Nothing has a name outside this process. The namespaces and their content disappear with the last descriptor,
//! however the process ends, so that no cleanup is needed.

mod namespace;
mod wire;

pub use namespace::Namespace;
pub use wire::{Address, Host, INTERFACE, Pair};

/// The reason why hosts cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(
        "{0} failed ({1}): making network namespaces needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN)"
    )]
    System(&'static str, #[source] std::io::Error),
    /// Netlink refused.
    #[error("{0} failed ({1})")]
    Netlink(&'static str, #[source] rtnetlink::Error),
}

impl Error {
    fn system(what: &'static str, source: impl Into<std::io::Error>) -> Self {
        Self::System(what, source.into())
    }
}
