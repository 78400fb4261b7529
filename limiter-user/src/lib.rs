//! The user-space side of `limiter`: command line, kernel access, snapshots and their display.
//!
//! Dependencies go one way: `cli` uses all other modules. `files` uses none. `show` and `export` use plain types. Only
//! `kernel` uses aya.

pub mod adapt;
pub mod agent;
pub mod ask;
pub mod cli;
#[cfg(test)]
mod documents;
pub mod export;
pub mod feed;
mod files;
pub mod helper;
pub mod kernel;
pub mod notify;
pub mod observe;
pub mod plan;
mod protected;
pub mod sandbox;
pub mod show;
