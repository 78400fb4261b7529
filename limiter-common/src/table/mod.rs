//! The table of buckets: sets of a few entries, which a keyed hash spreads the sources over.
//!
//! [`key`]: the bucket that a packet belongs to. [`entry`]: one bucket in memory. The layout assigns keys to sets, the
//! displacement tells the sets of keys that are not at home, and the search finds, adds and clears entries. [`share`]:
//! the part of the table and of the new-source limit that each limit has.

pub mod entry;
pub mod key;
pub mod share;

mod displacement;
mod layout;
mod search;

pub use displacement::{DISPLACED_WIDTH, Displaced};
pub use layout::{ENTRIES_OF_PAIR, Home, Places, SETS_OF_PAIR, SETS_OF_SOURCE, Seed, WAYS};
pub use search::{
    Added, New, SWEPT, SharedSet, SharedTable, add, clear, find_far, find_in, make_room, settle,
    sweep,
};
