//! The observed sources: a uniform sample, in bounded memory whatever is sent.

use std::collections::HashMap;

use limiter_common::{
    abi::{
        learn::{Sample, Service},
        rules::{ANY, NONE},
    },
    table::{Seed, key::Address},
};

use super::demand::Demand;

/// The most demands: one for each service of each source that sent more than one packet. Together they need at most about
/// 13 MiB.
pub const DEMANDS_MAX: usize = 16_384;

/// Sources that have sent one packet so far are small: so many of them are kept for each demand.
pub const ONCE_FACTOR: usize = 16;

/// The most services of one source that are told apart. Those of a scanner are not.
const SERVICES_OF_SOURCE: usize = 16;

/// Maximum number of halvings. Only one in `2^40` sources is left then.
const HALVINGS_MAX: u32 = 40;

/// Time in nanoseconds after which the slowest proposed limit has refilled the cost of one packet. A source that is
/// silent for longer needs no larger bucket because of its first packet.
const FORGIVEN: u64 = 12_000_000_000;

const SECOND: u64 = 1_000_000_000;

/// Stands for all packets without a port, and for services that are not told apart.
pub const PORTLESS: Service = Service {
    protocol: ANY,
    port: NONE,
};

/// A source that sent more than one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its demand on each service.
    pub demands: Vec<(Service, Demand)>,
}

impl Source {
    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.demands.iter().map(|(_, demand)| demand.packets).sum()
    }

    /// Adds packets for a service at `time` (nanoseconds). Packets whose port cannot be seen are charged to every limit that
    /// could match them, and so count for all services of the source.
    fn add(&mut self, time: u64, service: Service, packets: u64) {
        if service.port == ANY {
            let may_be = |known: &Service| {
                service.protocol == ANY || *known == PORTLESS || known.protocol == service.protocol
            };
            let others = self.demands.iter_mut();
            let others = others.filter(|(known, _)| *known != PORTLESS && may_be(known));
            others.for_each(|(_, demand)| demand.add(time, packets));
        }
        self.demand(bounded(service)).add(time, packets);
    }

    fn demand(&mut self, service: Service) -> &mut Demand {
        let index = |demands: &[(Service, Demand)], service| {
            demands.iter().position(|(known, _)| *known == service)
        };
        let is_known = index(&self.demands, service).is_some();
        let service = match is_known || self.demands.len() < SERVICES_OF_SOURCE {
            true => service,
            false => PORTLESS,
        };
        let index = index(&self.demands, service).unwrap_or_else(|| {
            self.demands.push((service, Demand::default()));
            self.demands.len() - 1
        });
        &mut self.demands[index].1
    }
}

/// The service, or [`PORTLESS`].
const fn bounded(service: Service) -> Service {
    if service.port >= NONE {
        PORTLESS
    } else {
        service
    }
}

/// New sources by the second in which they came.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    second: u64,
    count: u64,
    most: u64,
}

impl Arrivals {
    fn add(&mut self, time: u64, sources: u64) {
        if self.second != time / SECOND {
            (self.second, self.count) = (time / SECOND, 0);
        }
        self.count += sources;
        self.most = self.most.max(self.count);
    }
}

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
    pub sources: HashMap<Address, Source>,
    /// Number of their demands.
    demands: usize,
    /// The time of the only packet of a source so far, and its service.
    once: HashMap<Address, (u64, Service)>,
    /// The number of such sources that were removed, by service.
    forgotten: HashMap<Service, u64>,
    arrivals: Arrivals,
}

impl Sampler {
    /// Creates a sample of all sources, which is halved if the sources that come back have more than `most` demands. `seed`
    /// decides which sources stay.
    pub fn new(seed: Seed, most: usize) -> Self {
        Self {
            most,
            sample: Sample::one_in(0, seed),
            halvings: 0,
            sources: HashMap::new(),
            demands: 0,
            once: HashMap::new(),
            forgotten: HashMap::new(),
            arrivals: Arrivals::default(),
        }
    }

    /// Approximate number of sources in the sample that sent only one packet.
    pub fn once(&self) -> u64 {
        self.once.len() as u64 + self.forgotten.values().sum::<u64>()
    }

    /// These sources by the service of their packet.
    pub fn once_by_service(&self) -> HashMap<Service, u64> {
        let mut by_service = self.forgotten.clone();
        for (_, service) in self.once.values() {
            *by_service.entry(*service).or_default() += 1;
        }
        by_service
    }

    /// The most sources, of all and not only of the sample, that came for the first time in one second.
    pub const fn most_new(&self) -> u64 {
        self.arrivals.most
    }

    /// Adds packets of a source at `time` (nanoseconds of a clock that does not go back), if it is in the sample.
    pub fn see(&mut self, time: u64, source: Address, service: Service, packets: u64) {
        if !self.sample.has(&source) {
            return;
        }
        if let Some(known) = self.sources.get_mut(&source) {
            let before = known.demands.len();
            known.add(time, service, packets);
            self.demands += known.demands.len() - before;
            return self.bound_demands();
        }
        let first = self.once.remove(&source);
        if first.is_none() {
            self.arrivals.add(time, 1 << self.halvings);
        }
        if first.is_none() && packets == 1 {
            self.once.insert(source, (time, bounded(service)));
            return self.make_room(time);
        }
        let known = self.sources.entry(source).or_default();
        if let Some((first, service)) = first {
            known.add(first, service, 1);
        }
        known.add(time, service, packets);
        self.demands += known.demands.len();
        self.bound_demands();
    }

    fn bound_demands(&mut self) {
        while self.demands > self.most && self.halvings < HALVINGS_MAX {
            self.halve();
        }
    }

    /// Removes old sources that sent only one packet, if there are too many of them.
    fn make_room(&mut self, now: u64) {
        let most = ONCE_FACTOR * self.most;
        if self.once.len() <= most {
            return;
        }
        let forgotten = &mut self.forgotten;
        self.once.retain(|_, (time, service)| {
            let stays = now.saturating_sub(*time) < FORGIVEN;
            if !stays {
                *forgotten.entry(*service).or_default() += 1;
            }
            stays
        });
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
        let sources = self.sources.values();
        self.demands = sources.map(|source| source.demands.len()).sum();
        self.once.retain(|source, _| sample.has(source));
        self.forgotten.values_mut().for_each(|count| *count /= 2);
    }
}
