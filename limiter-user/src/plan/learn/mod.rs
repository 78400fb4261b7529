//! `limiter learn`: proposes limits that would have passed the observed traffic.
//!
//! [`sample`] keeps a uniform sample of the sources. [`demand`] computes the buckets that each of them needs, by the
//! limiter's own arithmetic. [`propose`] makes a configuration that suffices for nearly all, and [`show`] writes it with
//! the reasons. All are pure functions of the observed traffic, without the kernel, interfaces or capture formats.

pub mod demand;
pub mod propose;
pub mod sample;
pub mod service;
pub mod show;

pub use propose::{Proposal, propose};
pub use sample::Sampler;
pub use service::Service;

use limiter_common::{
    abi::{
        learn::{Flow, Totals},
        rules::NEEDS_TRANSPORT,
    },
    policy::{Parsed, parse},
    table::Seed,
};

use crate::plan::capture::Frame;

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

impl Watched {
    /// Creates a state without traffic.
    pub fn new(seed: Seed) -> Self {
        Self {
            sampler: Sampler::new(seed, sample::SOURCES_MAX),
            totals: Totals::default(),
            begun: u64::MAX,
            duration: 0,
        }
    }

    /// Adds a frame that arrived at `time` (nanoseconds), not before the previous frame.
    pub fn see(&mut self, time: u64, frame: &Frame) {
        self.begun = self.begun.min(time);
        self.duration = time - self.begun;
        let mut bytes = &frame.bytes[..];
        let parsed = parse(&mut bytes).with_arp(false);
        let total = match (parsed, parsed.info(&mut bytes, NEEDS_TRANSPORT)) {
            (_, Some(info)) => {
                self.sampler.see(time, Flow::of(&info), 1);
                &mut self.totals.seen
            }
            (Parsed::Malformed | Parsed::TooManyTags, _) => &mut self.totals.malformed,
            _ => &mut self.totals.not_ip,
        };
        total.packets += 1;
        total.bytes += frame.length;
    }
}
