//! The commands of `limiter`, with what they show, plan and send.
//!
//! Dependencies go one way: `cli` uses all other modules. `files` uses only the names of pins. `show` and `export` use plain types.

#![forbid(unsafe_code)]

pub mod adapt;
#[cfg(feature = "fleet")]
pub mod agent;
pub mod ask;
mod chronicle;
pub mod cli;
#[cfg(test)]
mod documents;
pub mod export;
pub mod feed;
mod files;
pub mod helper;
mod kept;
mod last;
pub mod notify;
pub mod observe;
mod ordinary;
pub mod plan;
mod protected;
pub mod sandbox;
pub mod show;
pub mod viewer;
