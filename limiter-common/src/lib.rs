//! What the kernel side and the user side of `limiter` share: the types that cross the boundary
//! between them and the arithmetic of the buckets, as pure functions of state, time and cost.
//!
//! Depends on nothing, so that the same source compiles for BPF and for the host.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

pub mod bucket;
pub mod candidates;
pub mod counters;
pub mod denied;
pub mod entry;
pub mod key;
pub mod layout;
pub mod learn;
pub mod limit;
pub mod policy;
pub mod rescale;
pub mod rules;
pub mod share;
pub mod table;
pub mod verdict;
pub mod watch;
pub mod window;
