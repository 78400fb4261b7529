//! Hosts behind a router share limits and lists through a store, even under faults.

mod faults;
mod lists;
mod shared;
