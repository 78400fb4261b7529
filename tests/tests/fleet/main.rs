//! Hosts behind a router that spreads a source's packets share limits and lists through a store, even under faults.

mod faults;
mod lists;
mod network;
mod shared;
