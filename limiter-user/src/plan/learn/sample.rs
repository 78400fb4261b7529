//! The sources that are watched: a uniform sample of all of them, in memory that is bounded whoever sends.

use std::collections::HashMap;

use limiter_common::{
    abi::learn::{Flow, Sample},
    table::{Seed, key::SourceKey},
};

use super::{service::Service, trace::Trace};
use crate::config::Key;

/// How much is kept at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Sources that sent more than one packet.
    pub sources: usize,
    /// Sources that sent one packet so far.
    pub once: usize,
    /// Groups of packets, of all traces.
    pub groups: usize,
    /// Groups of what one source sends.
    pub of_source: usize,
    /// Groups of what it sends to one service.
    pub of_service: usize,
    /// Services of one source that are told apart.
    pub services: usize,
}

impl Default for Bounds {
    /// Some 64 MiB of groups, and some 30 MiB of sources.
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

/// Seconds of which it is known how many new sources came; more than a day has.
pub const NEW_IN_SECOND_MAX: usize = 100_000;

/// One source of so many is none.
const HALVINGS_MAX: u32 = 40;

/// Packets of one flow, as they were seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When the first of them came, in nanoseconds of a clock that does not go back.
    pub time: u64,
    /// The last of them came no more than so many nanoseconds later.
    pub spread: u64,
    /// Whose they are, and where they go.
    pub flow: Flow,
    /// How many.
    pub packets: u64,
}

/// What is known of a source.
#[derive(Clone, Debug)]
pub struct Source {
    /// When it came first.
    pub first: u64,
    /// All its packets.
    pub trace: Trace,
    /// Those to services.
    pub services: HashMap<Service, Trace>,
}

/// The only packet of a source so far.
#[derive(Clone, Copy, Debug)]
struct Once {
    flow: Flow,
    time: u64,
}

/// After so many nanoseconds the slowest limit that is proposed has refilled what one packet has cost: a source
/// that was silent for longer after its only packet needs no more for having sent it.
const FORGIVEN: u64 = 12_000_000_000;

/// The sources in the sample.
///
/// Those that sent one packet only take little room, and are forgotten after [`FORGIVEN`] where that is short: a
/// flood of made-up sources, which send once each, does not push out those that come back.
#[derive(Debug)]
pub struct Sampler {
    bounds: Bounds,
    sample: Sample,
    halvings: u32,
    sources: HashMap<Flow, Source>,
    groups: usize,
    once: HashMap<Flow, Once>,
    forgotten: u64,
    new_in_second: HashMap<u64, u64>,
}

const SECOND: u64 = 1_000_000_000;

impl Sampler {
    /// All sources to begin with, as long as they fit into `bounds`; `seed` decides who stays.
    #[must_use]
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

    /// Which sources are in the sample.
    #[must_use]
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// One of `2^halvings` sources is in the sample.
    #[must_use]
    pub fn halvings(&self) -> u32 {
        self.halvings
    }

    /// The sources in it that sent more than one packet.
    #[must_use]
    pub fn sources(&self) -> &HashMap<Flow, Source> {
        &self.sources
    }

    /// About how many in it sent one packet only.
    #[must_use]
    pub fn once(&self) -> u64 {
        self.once.len() as u64 + self.forgotten
    }

    /// Those of them that are remembered one by one.
    #[must_use]
    pub fn once_held(&self) -> usize {
        self.once.len()
    }

    /// About how many sources in it came for the first time in each second of the sightings' clock.
    #[must_use]
    pub fn new_in_second(&self) -> &HashMap<u64, u64> {
        &self.new_in_second
    }

    /// Groups of packets that are kept.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Takes in what was seen, if its source is in the sample.
    pub fn see(&mut self, seen: &Seen) {
        let Seen {
            time,
            flow,
            packets,
            ..
        } = *seen;
        if !self.sample.has(&flow) {
            return;
        }
        let source = flow.source();
        if self.sources.contains_key(&source) {
            self.add(seen);
        } else if let Some(Once { flow, time }) = self.once.remove(&source) {
            self.add(&Seen {
                time,
                spread: 0,
                flow,
                packets: 1,
            });
            self.add(seen);
        } else {
            self.count_new(time / SECOND);
            if packets == 1 {
                self.once.insert(source, Once { flow, time });
                self.make_room(time);
            } else {
                self.add(seen);
            }
        }
    }

    /// Counts a new source. Of a capture that is longer than a day the last day is remembered.
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

    /// Forgets who sent once, and long ago, if they have become too many.
    fn make_room(&mut self, now: u64) {
        let most = self.bounds.once;
        if self.once.len() <= most {
            return;
        }
        let before = self.once.len();
        self.once
            .retain(|_, once| now.saturating_sub(once.time) < FORGIVEN);
        self.forgotten += (before - self.once.len()) as u64;
        // Not again at the next packet.
        while self.once.len() > most / 4 * 3 && self.halvings < HALVINGS_MAX {
            self.halve();
        }
    }

    /// Keeps every second source. What stays has all its packets, but for one that was forgotten.
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

/// How people write a source.
#[must_use]
pub fn show(source: &Flow) -> String {
    Key::default().show(&SourceKey {
        address: source.address,
        scope: source.family(),
        reserved: 0,
    })
}
