//! The observed sources: a uniform sample, in bounded memory whatever is sent.

use std::collections::HashMap;

use limiter_common::{
    abi::learn::{Flow, Sample},
    table::{Seed, key::SourceKey},
};

use super::{service::Service, trace::Trace};
use crate::config::Key;

/// Maximum sizes of the sample.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Sources that sent more than one packet.
    pub sources: usize,
    /// Sources that have sent one packet so far.
    pub once: usize,
    /// Groups of packets, in all traces.
    pub groups: usize,
    /// Groups of packets per source.
    pub of_source: usize,
    /// Groups of packets per source and service.
    pub of_service: usize,
    /// Services per source.
    pub services: usize,
}

impl Default for Bounds {
    /// About 64 MiB of groups, and about 35 MiB of sources.
    fn default() -> Self {
        Self {
            sources: 16_384,
            once: 1 << 18,
            groups: 4 << 20,
            of_source: 4_096,
            of_service: 2_048,
            services: 8,
        }
    }
}

/// Seconds for which the number of new sources is kept: more than a day.
pub const NEW_IN_SECOND_MAX: usize = 100_000;

/// Maximum number of halvings. Only one in `2^40` sources is left then.
const HALVINGS_MAX: u32 = 40;

/// Observed packets of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Arrival time of the first packet, in nanoseconds of a clock that does not go back.
    pub time: u64,
    /// Maximum nanoseconds from the first packet to the last.
    pub spread: u64,
    /// Source and destination of the packets.
    pub flow: Flow,
    /// Number of packets.
    pub packets: u64,
}

/// The traffic of a source.
#[derive(Clone, Debug)]
pub struct Source {
    /// Arrival time of the first packet.
    pub first: u64,
    /// All packets of the source.
    pub trace: Trace,
    /// Packets of the source by service.
    pub services: HashMap<Service, Trace>,
}

/// Time in nanoseconds after which the slowest proposed limit has refilled the cost of one packet. A source that is
/// silent for longer needs no larger bucket because of its first packet.
const FORGIVEN: u64 = 12_000_000_000;

/// The sources in the sample.
///
/// Sources that sent only one packet take little room. If room is short, they are removed after [`FORGIVEN`]. A flood
/// of made-up sources, which send once each, does not displace the sources that come back.
#[derive(Debug)]
pub struct Sampler {
    bounds: Bounds,
    sample: Sample,
    halvings: u32,
    sources: HashMap<Flow, Source>,
    groups: usize,
    once: HashMap<Flow, Seen>,
    forgotten: u64,
    new_in_second: HashMap<u64, u64>,
}

const SECOND: u64 = 1_000_000_000;

impl Sampler {
    /// Creates a sample of all sources, which is halved when `bounds` are exceeded. `seed` decides which sources stay.
    pub fn new(seed: Seed, bounds: Bounds) -> Self {
        Self {
            bounds,
            sample: Sample::one_in(0, seed),
            halvings: 0,
            sources: HashMap::new(),
            groups: 0,
            once: HashMap::new(),
            forgotten: 0,
            new_in_second: HashMap::new(),
        }
    }

    /// The rule that selects the sources in the sample.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// Number of halvings: one in `2^halvings` sources is in the sample.
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// The sources in the sample that sent more than one packet.
    pub fn sources(&self) -> &HashMap<Flow, Source> {
        &self.sources
    }

    /// Approximate number of sources in the sample that sent only one packet.
    pub fn once(&self) -> u64 {
        self.once.len() as u64 + self.forgotten
    }

    /// Number of sources with only one packet that are kept one by one.
    pub fn once_held(&self) -> usize {
        self.once.len()
    }

    /// Approximate number of new sources in the sample in each second of the observed packets' clock.
    pub fn new_in_second(&self) -> &HashMap<u64, u64> {
        &self.new_in_second
    }

    /// Number of groups of packets in the sample.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Adds observed packets, if their source is in the sample.
    pub fn see(&mut self, seen: &Seen) {
        if !self.sample.has(&seen.flow) {
            return;
        }
        let source = seen.flow.source();
        if self.sources.contains_key(&source) {
            self.add(seen);
        } else if let Some(once) = self.once.remove(&source) {
            self.add(&once);
            self.add(seen);
        } else {
            self.count_new(seen.time / SECOND);
            if seen.packets == 1 {
                self.once.insert(source, *seen);
                self.make_room(seen.time);
            } else {
                self.add(seen);
            }
        }
    }

    /// Counts a new source. If there are too many seconds, only the last day is kept.
    fn count_new(&mut self, second: u64) {
        const DAY: u64 = 86_400;
        *self.new_in_second.entry(second).or_default() += 1;
        if self.new_in_second.len() > NEW_IN_SECOND_MAX {
            self.new_in_second.retain(|before, _| before + DAY > second);
        }
    }

    fn add(&mut self, seen: &Seen) {
        let Seen {
            time,
            spread,
            flow,
            packets,
        } = *seen;
        let bounds = self.bounds;
        let source = self.sources.entry(flow.source()).or_insert_with(|| Source {
            first: time,
            trace: Trace::new(bounds.of_source),
            services: HashMap::new(),
        });
        let mut add = |trace: &mut Trace| {
            self.groups -= trace.groups().len();
            trace.add(time, packets, spread);
            self.groups += trace.groups().len();
        };
        add(&mut source.trace);
        if let Some(service) = Service::of(&flow) {
            let is_known = source.services.contains_key(&service);
            if is_known || source.services.len() < bounds.services {
                let trace = source.services.entry(service);
                add(trace.or_insert_with(|| Trace::new(bounds.of_service)));
            }
        }
        while (self.sources.len() > bounds.sources || self.groups > bounds.groups)
            && self.halvings < HALVINGS_MAX
        {
            self.halve();
        }
    }

    /// Removes old sources that sent only one packet, if there are too many of them.
    fn make_room(&mut self, now: u64) {
        let most = self.bounds.once;
        if self.once.len() <= most {
            return;
        }
        let before = self.once.len();
        self.once
            .retain(|_, once| now.saturating_sub(once.time) < FORGIVEN);
        self.forgotten += (before - self.once.len()) as u64;
        // Leaves room, so that the next packet does not halve again.
        while self.once.len() > most / 4 * 3 && self.halvings < HALVINGS_MAX {
            self.halve();
        }
    }

    /// Keeps every second source. The remaining sources keep all packets, except sources removed for lack of room.
    pub fn halve(&mut self) {
        self.halvings = (self.halvings + 1).min(HALVINGS_MAX);
        self.sample = Sample {
            muted: self.sample.muted,
            ..Sample::one_in(self.halvings, self.sample.seed)
        };
        let sample = self.sample;
        self.sources.retain(|source, _| sample.has(source));
        self.once.retain(|source, _| sample.has(source));
        self.groups = self.sources.values().map(Source::groups).sum();
        self.forgotten /= 2;
        self.new_in_second.values_mut().for_each(|new| *new /= 2);
    }
}

impl Source {
    fn groups(&self) -> usize {
        let of_services = self.services.values().map(|trace| trace.groups().len());
        self.trace.groups().len() + of_services.sum::<usize>()
    }
}

/// The text for a source.
pub fn show(source: &Flow) -> String {
    Key::default().show(&SourceKey::new(source.family(), source.address, 0, 0))
}
