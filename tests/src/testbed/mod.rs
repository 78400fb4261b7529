//! Virtual hosts on this machine: network namespaces joined by a veth pair.
//!
//! Nothing has a name outside this process. The namespaces and their content disappear with the last descriptor,
//! however the process ends, so that no cleanup is needed.

mod namespace;
mod wire;

pub use namespace::Namespace;
pub use wire::{Address, Host, INTERFACE, Pair};
