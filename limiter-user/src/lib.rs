//! The user side of `limiter`: command line, configuration, kernel, statistics, views.
//!
//! One-way: `cli` uses all others; `files` knows none; `view` and `export` see only `stats`; only `kernel` knows aya;
//! `config` knows none of them.

pub mod agent;
pub mod capture;
pub mod cli;
pub mod config;
pub mod demo;
pub mod export;
mod files;
pub mod keeper;
pub mod kernel;
pub mod lab;
pub mod learn;
pub mod replay;
pub mod sandbox;
pub mod stats;
pub mod view;
