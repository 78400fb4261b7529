//! The process that keeps the privileges.
//!
//! `export` talks to the network without any privilege ([`crate::sandbox`]), and asks this process, its child, for what only
//! the privileged can do: reading attachments. A socket without a name joins the two, and each ends with the other, also
//! while nobody asks ([`End`]).
//!
//! Not descriptors but answers go across: before Linux 5.19 `bpf(2)` refuses even to look into a map that is open where
//! the process has no `CAP_BPF` and `kernel.unprivileged_bpf_disabled` is set, and what is attached, swapped or detached
//! later must be opened anew.

mod channel;
mod start;

pub use channel::{Broken, Channel, End};
pub use start::{attend, start};

/// The hidden verb: `limiter helper`.
pub const VERB: &str = "helper";
