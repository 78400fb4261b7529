//! Hosts behind a router that spreads what a source sends over them.

mod faults;
mod lists;
mod network;
mod shared;
