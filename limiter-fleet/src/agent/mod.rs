//! The agent: scans the tables of this host, exchanges rounds with the store, and charges the packets that other hosts
//! have passed.
//!
//! The agent waits neither for the store nor for other commands on this host: it processes answers when they arrive.

mod answer;
mod connection;
mod exchange;
mod freshness;
mod members;
mod membership;
mod overlay;
mod run;
mod shared_lists;

pub use run::{Agent, Options};
pub use shared_lists::Answer;
