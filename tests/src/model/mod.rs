//! Models the documented behaviour of limiter, without the program's code, and without the code that compiles its
//! constants.
//!
//! The model has one CPU, a table that is large enough, and no sockets.

pub mod bucket;
mod change;
mod control;
mod decide;
mod listed;
mod matching;
pub mod merged;
mod new_sources;
pub mod packet;

use std::collections::{BTreeMap, HashMap};

use ipnet::IpNet;
use limiter_common::{
    abi::counters::{Count, LimitCounters, REASONS_MAX},
    policy::verdict::Reason,
    table::Seed,
};

use bucket::{Quota, State, TICKS};
use limiter_config::{Burst, Control, Exempt, Limit, Rate, Settings};
use new_sources::NewSourceLimit;

/// Owner of a bucket: what its packets have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The prefix of the source; none if all sources share one bucket.
    pub source: Option<IpNet>,
    /// The prefix of the destination; none if all destinations share one bucket.
    pub destination: Option<IpNet>,
    /// The protocol and the source port, if each flow has a bucket; 255 and 0 if they cannot be read.
    pub flow: Option<(u8, u16)>,
    /// The destination port, if each has a bucket; 0 for packets without ports.
    pub port: Option<u16>,
    /// The VLAN, if each has a bucket; 0 for untagged packets.
    pub vlan: Option<u16>,
}

/// The limit's name, and the owner.
pub type Id = (String, Owner);

/// A bucket, and its counters.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// State of the bucket.
    pub state: State,
    /// Packets of the source that passed.
    pub passed: u64,
    /// Packets over the limit since the limit began to drop them, or to pass them in shadow.
    pub refused: u64,
}

impl Bucket {
    fn full(state: State) -> Self {
        Self {
            state,
            passed: 0,
            refused: 0,
        }
    }
}

/// Result for a packet.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The reason that counts the packet.
    pub reason: Reason,
    /// Name of the limit that refused it, if one did.
    pub refused_by: Option<String>,
    /// Nanoseconds until it leaves; none: no limit decides that.
    pub delay: Option<i128>,
    /// Its bucket in each limit that matches.
    pub buckets: Vec<Id>,
}

/// A limit, with its quota.
#[derive(Clone, Debug)]
struct Held {
    limit: Limit,
    quota: Quota,
    /// The kinds of control traffic that the limit is for: of the link, of routing.
    control: (bool, bool),
}

/// The limiter.
#[derive(Clone, Debug)]
pub struct Model {
    settings: Settings,
    /// The seed of the table.
    pub seed: Seed,
    frame_max: u64,
    limits: Vec<Held>,
    new_sources: Option<NewSourceLimit>,
    /// The stretch of an adaptive limit's costs, and the tick at which it ends, by the limit's name.
    scales: BTreeMap<String, (i128, i128)>,
    /// Second chances, if they are on.
    second_chances: Option<NewSourceLimit>,
    /// When each bucket could not be made, in units of 2^26 ns.
    refused: HashMap<Id, i128>,
    /// All existing buckets.
    pub buckets: HashMap<Id, Bucket>,
    /// Packets by reason.
    pub reasons: [Count; REASONS_MAX],
    /// Packets by limit.
    pub figures: BTreeMap<String, LimitCounters>,
    /// Packets by the list that decided about their source.
    pub hits: BTreeMap<String, Count>,
    /// Buckets made.
    pub added: u64,
}

/// Names of the limits on control traffic: per source, of the link and of routing, and in total.
const CONTROL: [&str; 3] = ["control", "control-routing", "control-total"];

/// The kinds of control traffic that a limit is for.
fn control(name: &str) -> (bool, bool) {
    let is_total = name == CONTROL[2];
    (
        is_total || name == CONTROL[0],
        is_total || name == CONTROL[1],
    )
}

/// All limits of `settings`. The limits on control traffic come last.
fn limits(settings: &Settings) -> Vec<Limit> {
    let mut limits = settings.limits.clone();
    let Exempt {
        control,
        vrrp,
        ospf,
        bfd,
        ..
    } = settings.exempt;
    let by_name = vrrp || ospf || bfd;
    let Control {
        rate,
        burst,
        routing,
        total,
    } = settings.control;
    let each = |name, rate: Rate, burst: Option<Burst>| {
        let two_seconds = 2_000_000_000 * u128::from(rate.amount) / u128::from(rate.period_ns);
        let burst = burst.unwrap_or(Burst {
            tokens: u64::try_from(two_seconds).unwrap().max(1),
            unit: None,
        });
        Limit {
            burst: Some(burst),
            ..Limit::new(name, rate)
        }
    };
    if control {
        limits.push(each(CONTROL[0], rate, burst));
    }
    if by_name {
        limits.push(each(CONTROL[1], routing, None));
    }
    if control || by_name {
        limits.extend(total.map(|total| Limit {
            key: "interface".parse().unwrap(),
            ..Limit::new(CONTROL[2], total)
        }));
    }
    limits
}

/// Number of limits that share the new-source limit: all limits with keys by source, but at least two if there are
/// several limits.
fn parts(settings: &Settings) -> usize {
    let limits = limits(settings);
    let whole = "interface".parse().unwrap();
    let of_sources = limits.iter().filter(|limit| limit.key != whole).count();
    match limits.len() {
        0 | 1 => 1,
        _ => of_sources.max(2),
    }
}

fn count(counter: &mut Count, length: usize) {
    counter.packets += 1;
    counter.bytes += length as u64;
}

impl Model {
    /// A model without buckets at `now` (nanoseconds), with at most `new_sources` tokens left in the new-source limit.
    /// `phases` are those of the limits' windows, by name.
    pub fn new(
        settings: &Settings,
        phases: &BTreeMap<String, u64>,
        frame_max: u64,
        new_sources: u64,
        now: u64,
    ) -> Self {
        let begin = i128::from(now) * TICKS;
        let limit = settings.new_sources.as_ref();
        let new_sources =
            limit.map(|limit| NewSourceLimit::new(limit, parts(settings), new_sources, begin));
        let second_chances = new_sources.as_ref().zip(limit).and_then(|(first, limit)| {
            let second = first.second(limit, parts(settings));
            limit.second_chance.then_some(second)
        });
        let mut model = Self {
            settings: settings.clone(),
            seed: Seed::KNOWN,
            frame_max,
            limits: Vec::new(),
            new_sources,
            second_chances,
            refused: HashMap::new(),
            scales: BTreeMap::new(),
            buckets: HashMap::new(),
            reasons: Default::default(),
            figures: BTreeMap::new(),
            hits: BTreeMap::new(),
            added: 0,
        };
        model.hold(settings, phases);
        model
    }

    fn hold(&mut self, settings: &Settings, phases: &BTreeMap<String, u64>) {
        self.settings = settings.clone();
        self.limits = limits(settings)
            .into_iter()
            .map(|limit| Held {
                quota: Quota::new(&limit, phases[&limit.name], self.frame_max),
                control: control(&limit.name),
                limit,
            })
            .collect();
    }

    /// Tick at which the new-source limit's bucket is full, if there is such a limit.
    pub fn new_sources_full_at(&self) -> Option<i128> {
        self.new_sources.as_ref().map(NewSourceLimit::full_at)
    }

    /// Stretches the costs of an adaptive limit until `until` (nanoseconds), which is rounded up to 2^20 ns.
    pub fn scale(&mut self, name: &str, stretch: u32, until: u64) {
        let end = (i128::from(until >> 20) + 1) << 20;
        let scale = (stretch.into(), end * TICKS);
        self.scales.insert(name.to_owned(), scale);
    }

    /// The quota of a limit.
    pub fn quota(&self, name: &str) -> Option<&Quota> {
        let held = self.limits.iter().find(|held| held.limit.name == name);
        held.map(|held| &held.quota)
    }

    /// Offers `frame` at time `nanoseconds`.
    pub fn offer(&mut self, frame: &[u8], nanoseconds: u64) -> Outcome {
        let now = i128::from(nanoseconds) * TICKS;
        let mut outcome = self.decide(frame, now);
        outcome.reason = self.in_force(outcome.reason);
        if let Some(name) = &outcome.refused_by {
            let passed = outcome.reason.passes();
            let figures = self.figures.entry(name.clone()).or_default();
            refused(figures, passed, frame.len());
            let id = outcome.buckets.iter().find(|(limit, _)| limit == name);
            if let Some(bucket) = id.and_then(|id| self.buckets.get_mut(id)) {
                bucket.refused += 1;
                bucket.passed += u64::from(passed);
                let held = self.limits.iter().find(|held| held.limit.name == *name);
                if let (Reason::Limit, Some(held)) = (outcome.reason, held) {
                    held.quota.hold(&mut bucket.state, now);
                }
            }
        }
        count(&mut self.reasons[outcome.reason as usize], frame.len());
        outcome
    }

    /// The reason after shadow mode, which drops nothing.
    fn in_force(&self, reason: Reason) -> Reason {
        match (reason, self.settings.shadow) {
            (Reason::Malformed, true) => Reason::MalformedWouldDrop,
            (reason, true) if !reason.passes() => Reason::WouldDrop,
            (reason, _) => reason,
        }
    }
}

/// Counts a packet for the limit that refused it. The packet still passed if the interface is in shadow.
fn refused(counts: &mut LimitCounters, passed: bool, length: usize) {
    let figure = if passed {
        &mut counts.would_drop
    } else {
        &mut counts.dropped
    };
    count(figure, length);
}
