//! Everything that talks to the kernel: the only place that knows aya, bpffs and netlink.
//!
//! Imports run one way: `sys` <- `program` <- `state` <- `ops`, and `sys` <- `state` <- `probe`.

pub mod error;
pub mod ops;
pub mod probe;
pub mod program;
pub mod state;
pub mod sys;

pub(in crate::kernel) use error::Failed;
pub use error::{Error, Result};
pub use state::attachment::Attachment;
