//! `limiter learn`: from traffic to limits that it would have passed.
//!
//! [`sample`] keeps a uniform sample of the sources, with every packet of each ([`trace`]). [`need`] computes by
//! the limiter's own arithmetic what a bucket must be to lose nothing of one, [`choose`] what it must be for nearly
//! all of them, and [`propose`] makes a configuration of it, which [`show`] writes with the reasons. Pure
//! functions of what was seen; knows nothing of the kernel, interfaces or captures' formats.

pub mod choose;
pub mod frames;
pub mod human;
pub mod need;
pub mod propose;
mod room;
pub mod sample;
pub mod service;
pub mod show;
pub mod trace;

pub use propose::{Finding, Proposal, TooLittle, propose};
pub use sample::{Bounds, Sampler, Seen};
pub use service::Service;

use limiter_common::abi::learn::Totals;

/// Everything that was seen.
#[derive(Debug)]
pub struct Watched {
    /// The sources in the sample.
    pub sampler: Sampler,
    /// What was counted, of all sources.
    pub totals: Totals,
    /// When watching began, in nanoseconds of the sightings' clock.
    pub begun: u64,
    /// For how long, in nanoseconds.
    pub duration: u64,
}
