//! `limiter learn`: proposes limits that would have passed the observed traffic.
//!
//! [`sample`] keeps a uniform sample of the sources, with every packet of each ([`trace`]). [`need`] computes the
//! bucket that a source needs to lose nothing, by the limiter's own arithmetic. [`choose`] computes it for nearly all
//! sources. [`propose`] makes a configuration, and [`show`] writes it with the reasons. All are pure functions of the
//! observed traffic, without the kernel, interfaces or capture formats.

pub mod choose;
mod frames;
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

/// All observed traffic.
#[derive(Debug)]
pub struct Watched {
    /// The sources in the sample.
    pub sampler: Sampler,
    /// Counters of all sources.
    pub totals: Totals,
    /// Begin of the observation, in nanoseconds of the observed packets' clock.
    pub begun: u64,
    /// Duration of the observation, in nanoseconds.
    pub duration: u64,
}
