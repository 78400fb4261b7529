//! `limiter learn`: proposes a limit that would have passed the observed traffic.
//!
//! [`sample`] keeps a uniform sample of the sources. [`demand`] computes the buckets that each of them needs, by the
//! limiter's own arithmetic. [`propose`] makes a configuration that suffices for nearly all, and [`show`] writes it with
//! the reasons. These are pure functions of the observed traffic, without the kernel, interfaces or capture formats.
//! [`live`] gets it from an interface.

pub mod demand;
pub mod propose;
pub mod sample;
pub mod show;
pub mod watch;

pub use propose::{Proposal, propose};
pub use sample::Sampler;

use limiter_common::{
    abi::learn::{Totals, source_of},
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
        let total = match parse(&mut bytes) {
            Parsed::Ipv4(address) | Parsed::Ipv6(address) => {
                self.sampler.see(time, source_of(&address), 1);
                &mut self.totals.seen
            }
            Parsed::Malformed | Parsed::TooManyTags => &mut self.totals.malformed,
            Parsed::NotIp | Parsed::Arp(_) => return,
        };
        total.packets += 1;
        total.bytes += frame.length;
    }
}
