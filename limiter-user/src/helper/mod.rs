//! The helper process, which keeps the privileges.
//!
//! `export` talks to the network without any privilege ([`crate::sandbox`]). It asks this process, its child, to read
//! attachments, which needs privileges. An unnamed socket joins the two. Each ends with the other, even without a
//! question.
//!
//! The helper sends answers, not descriptors. Before Linux 5.19, `bpf(2)` refuses to read even an open map if the
//! process lacks `CAP_BPF` and `kernel.unprivileged_bpf_disabled` is set. Attachments that are made or changed later
//! must be opened anew.

mod channel;
mod start;

pub use channel::Channel;
pub use start::{attend, start};

/// The hidden subcommand: `limiter helper`.
pub const VERB: &str = "helper";
