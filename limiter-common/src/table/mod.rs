//! The table of buckets: an array of small sets. A keyed hash assigns each source to a home set.
//!
//! - [`key`]: the bucket that a packet belongs to
//! - [`nat64`]: IPv6 addresses that stand for IPv4 addresses
//! - [`pair`]: keys of two addresses
//! - [`word`], [`entry`]: one bucket in memory
//! - `layout`: the probe sequence of a source
//! - `overflow`: the count of a set's sources in overflow sets
//! - `search`: finds, adds and clears entries
//! - [`share`]: each limit's part of the table and of the new-source limit

pub mod entry;
pub mod key;
pub mod nat64;
pub mod pair;
pub mod share;
pub mod word;

mod layout;
mod overflow;
mod search;

pub(crate) use layout::scaled;
pub use layout::{ENTRIES_OF_PAIR, Home, ProbeSequence, SETS_OF_PAIR, SETS_OF_SOURCE, Seed, WAYS};
pub use overflow::{OVERFLOW_WIDTH, Overflow};
pub use search::{
    Added, FEW, New, SWEPT, SharedTable, add, clear, find, find_in_pair, make_room, may_be_taken,
    settle, sweep,
};
