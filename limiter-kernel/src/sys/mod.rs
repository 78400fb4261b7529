//! Thin wrappers of the kernel's interfaces: bpf(2), netlink, bpffs, clocks, capabilities.

pub mod address;
pub mod bpf;
pub mod bpffs;
pub mod btf;
pub mod clock;
pub(crate) mod features;
pub mod folder;
pub(crate) mod heard;
pub(crate) mod instruction;
pub mod interface;
pub mod kind;
pub mod link;
pub mod lock;
pub mod memory;
pub mod native_mode;
pub(crate) mod netlink;
pub mod requirements;
pub mod routes;
pub mod sockets;
pub(crate) mod words;

pub use bpf::LinkInfo;
pub use folder::Dir;
pub use interface::{Interface, XdpMode, XdpState};
pub use link::Link;
pub use lock::Lock;
pub use routes::Routes;
