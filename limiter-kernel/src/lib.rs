//! Everything that talks to the kernel: the only crate of the host that knows aya, bpffs and netlink, and that has unsafe
//! code.
//!
//! Imports run one way: `sys` <- `program` <- `state` <- `ops`, and `sys` <- `state` <- `probe`.

pub mod error;
pub mod ops;
pub mod probe;
pub mod program;
pub mod state;
pub mod sys;

pub(crate) use error::Failed;
pub use error::{Error, Result};
pub use state::attachment::Attachment;
