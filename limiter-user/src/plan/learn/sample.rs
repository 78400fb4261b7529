//! The observed sources: a uniform sample, in bounded memory whatever is sent.

use std::collections::HashMap;

use limiter_common::{
    abi::learn::Sample,
    table::{Seed, key::Address},
};

use super::demand::Demand;

/// Maximum number of sources that sent more than one packet. Together they need at most about 13 MiB.
pub const SOURCES_MAX: usize = 16_384;

/// Sources that have sent one packet so far are small: so many of them are kept for each other source.
pub const ONCE_FACTOR: usize = 16;

/// Maximum number of halvings. Only one in `2^40` sources is left then.
const HALVINGS_MAX: u32 = 40;

/// Time in nanoseconds after which the slowest proposed limit has refilled the cost of one packet. A source that is
/// silent for longer needs no larger bucket because of its first packet.
const FORGIVEN: u64 = 12_000_000_000;

/// The sources in the sample.
///
/// Sources that sent only one packet take little room. If room is short, they are removed after [`FORGIVEN`]. A flood
/// of made-up sources, which send once each, does not displace the sources that come back.
#[derive(Debug)]
pub struct Sampler {
    most: usize,
    /// The rule that selects the sources in the sample.
    pub sample: Sample,
    /// Number of halvings: one in `2^halvings` sources is in the sample.
    pub halvings: u32,
    /// The sources in the sample that sent more than one packet.
    pub sources: HashMap<Address, Demand>,
    /// The time of the only packet of a source so far.
    once: HashMap<Address, u64>,
    forgotten: u64,
}

impl Sampler {
    /// Creates a sample of all sources, which is halved if more than `most` sources come back. `seed` decides which
    /// sources stay.
    pub fn new(seed: Seed, most: usize) -> Self {
        Self {
            most,
            sample: Sample::one_in(0, seed),
            halvings: 0,
            sources: HashMap::new(),
            once: HashMap::new(),
            forgotten: 0,
        }
    }

    /// Approximate number of sources in the sample that sent only one packet.
    pub fn once(&self) -> u64 {
        self.once.len() as u64 + self.forgotten
    }

    /// Adds packets of a source at `time` (nanoseconds of a clock that does not go back), if it is in the sample.
    pub fn see(&mut self, time: u64, source: Address, packets: u64) {
        if !self.sample.has(&source) {
            return;
        }
        if let Some(demand) = self.sources.get_mut(&source) {
            return demand.add(time, packets);
        }
        let first = self.once.remove(&source);
        if first.is_none() && packets == 1 {
            self.once.insert(source, time);
            return self.make_room(time);
        }
        let demand = self.sources.entry(source).or_default();
        if let Some(first) = first {
            demand.add(first, 1);
        }
        demand.add(time, packets);
        while self.sources.len() > self.most && self.halvings < HALVINGS_MAX {
            self.halve();
        }
    }

    /// Removes old sources that sent only one packet, if there are too many of them.
    fn make_room(&mut self, now: u64) {
        let most = ONCE_FACTOR * self.most;
        if self.once.len() <= most {
            return;
        }
        let before = self.once.len();
        self.once
            .retain(|_, time| now.saturating_sub(*time) < FORGIVEN);
        self.forgotten += (before - self.once.len()) as u64;
        // Leaves room, so that the next packet does not halve again.
        while self.once.len() > most / 4 * 3 && self.halvings < HALVINGS_MAX {
            self.halve();
        }
    }

    /// Keeps every second source. The remaining sources keep all packets.
    pub fn halve(&mut self) {
        self.halvings = (self.halvings + 1).min(HALVINGS_MAX);
        let sample = Sample::one_in(self.halvings, self.sample.seed);
        self.sample = sample;
        self.sources.retain(|source, _| sample.has(source));
        self.once.retain(|source, _| sample.has(source));
        self.forgotten /= 2;
    }
}
