//! The user side of `limiter`: command line, configuration, kernel, snapshots and how they are shown.
//!
//! One-way: `cli` uses all others; `files` knows none; `show` and `export` see plain types; only `kernel` knows aya;
//! `config` knows none of them.

pub mod agent;
pub mod cli;
pub mod config;
pub mod demo;
pub mod export;
mod files;
pub mod helper;
pub mod kernel;
pub mod observe;
pub mod plan;
pub mod sandbox;
pub mod show;
pub mod testbed;
