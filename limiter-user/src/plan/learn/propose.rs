//! Proposes limits from observed traffic, and computes their effect on it.

use std::collections::{BTreeMap, BTreeSet};

use limiter_common::abi::learn::Flow;

use super::{
    Watched,
    choose::{self, Choice, SOURCES_MIN, WINDOW, choose, far_above},
    need,
    room::{max_sources, new_sources},
    sample::Source,
    service::Service,
    trace::Trace,
};
use crate::config::{Exempt, Limit, Match, Settings, settings::DEFAULT_LIMIT};

const SECOND: u64 = 1_000_000_000;
/// Minimum duration, in nanoseconds. Shorter traffic says nothing.
const DURATION_MIN: u64 = SECOND;
/// Maximum duration, in nanoseconds. A bucket's clock has room for a few times as much.
const DURATION_MAX: u64 = 60 * 86_400 * SECOND;
/// Maximum number of services with a limit of their own.
const SERVICES_MAX: usize = 8;
/// A service gets a limit if it has at least 1 of 20 sources or packets.
const PART_OF_ALL: u64 = 20;

/// A reason why the traffic is not enough for a proposal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLittle {
    /// The time is too short.
    #[error("nothing is proposed, because {0} ms of traffic are too short: watch for at least 1 s")]
    Time(u64),
    /// The time is too long: the clock was set.
    #[error(
        "nothing is proposed, because the first and the last packet are {0} days apart, more than 60: if the clock was set in between, use only the part of the capture before or after that"
    )]
    Clock(u64),
    /// There were no IP packets.
    #[error(
        "nothing is proposed, because no IP packet arrived: watch the interface that the traffic arrives on"
    )]
    Nothing,
    /// Too few sources came back. A source that sends once may be made up.
    #[error(
        "nothing is proposed, because of {0} IP packets only {1} sources sent more than one: watch until at least {SOURCES_MIN} sources have, or write limits by hand"
    )]
    Sources(u64, usize),
    /// No limit that can be written would pass the traffic.
    #[error(
        "nothing is proposed, because the usual sources send more than 1M/s, the highest rate that learn proposes: write limits by hand"
    )]
    Much,
}

/// The facts behind one limit.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The service that the limit is for; none: all packets.
    pub service: Option<Service>,
    /// Rate and burst.
    pub choice: Choice,
    /// Number of usual sources that the choice is based on.
    pub usual: usize,
    /// Number of usual sources that would have lost packets.
    pub usual_hit: usize,
    /// Sources far above the usual ones, with their packets. The source that sends most comes first.
    pub far: Vec<(Flow, u64)>,
    /// Sources in the sample that sent more than one packet, and at least one that the limit matches.
    pub sources: usize,
    /// Number of these sources that would have lost packets.
    pub hit: usize,
    /// Packets of these sources.
    pub packets: u64,
    /// Number of these packets that the limit would have dropped.
    pub dropped: u64,
}

/// A proposed configuration, with the facts behind it.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The configuration, in shadow.
    pub settings: Settings,
    /// The findings: one for each limit, in the limits' order.
    pub findings: Vec<Finding>,
    /// Services without a limit of their own, because the last limit is tight enough.
    pub without_limit: Vec<Service>,
    /// Sources in the sample that sent only one packet.
    pub once: u64,
    /// Sources in the sample that sent more than one packet.
    pub returning: u64,
    /// True if the sources that sent only one packet look made up.
    pub made_up: bool,
    /// New sources in the busiest second, among all sources.
    pub new_at_most: u64,
}

/// Proposes limits under which 99.9 % of the usual sources would have lost nothing.
pub fn propose(watched: &Watched) -> Result<Proposal, TooLittle> {
    if watched.totals.seen.packets == 0 {
        return Err(TooLittle::Nothing);
    }
    if watched.duration < DURATION_MIN {
        return Err(TooLittle::Time(watched.duration / 1_000_000));
    }
    if watched.duration > DURATION_MAX {
        return Err(TooLittle::Clock(watched.duration / SECOND / 86_400));
    }
    let returning = returning(watched);
    if returning.len() < SOURCES_MIN {
        let seen = watched.totals.seen.packets;
        return Err(TooLittle::Sources(seen, returning.len()));
    }
    let everything = examine(watched, &returning, None).ok_or(TooLittle::Much)?;
    let far: BTreeSet<Flow> = everything.far.iter().map(|(source, _)| *source).collect();
    let mut findings = Vec::new();
    let mut without_limit = Vec::new();
    for service in services(&returning, &far) {
        match examine(watched, &returning, Some(service)) {
            Some(finding) if is_tighter(&finding.choice, &everything.choice) => {
                findings.push(finding);
            }
            Some(_) => without_limit.push(service),
            None => {}
        }
    }
    findings.push(everything);
    let returning_count = returning.len() as u64;
    let once = watched.sampler.once();
    let (new_sources, made_up, new_at_most) = new_sources(watched, once, returning_count);
    Ok(Proposal {
        settings: Settings {
            max_sources: max_sources(returning_count << watched.sampler.halvings()),
            new_sources: Some(new_sources),
            exempt: Exempt {
                established: true,
                control: true,
            },
            shadow: true,
            limits: findings.iter().map(limit).collect(),
            ..Settings::default()
        },
        findings,
        without_limit,
        once,
        returning: returning_count,
        made_up,
        new_at_most,
    })
}

type Sources<'a> = Vec<(&'a Flow, &'a Source)>;

/// Sources that sent more than one packet. Made-up sources rarely come twice, and one packet passes every limit.
fn returning(watched: &Watched) -> Sources<'_> {
    let mut returning: Sources<'_> = watched.sampler.sources().iter().collect();
    returning.sort_unstable_by_key(|(flow, _)| **flow);
    returning
}

/// Chooses a limit for the packets of `service`, and computes its effect.
fn examine<'w>(
    watched: &'w Watched,
    returning: &Sources<'w>,
    service: Option<Service>,
) -> Option<Finding> {
    let trace_of = |source: &'w Source| match service {
        None => Some(&source.trace),
        Some(service) => source.services.get(&service),
    };
    let held: Vec<(&Flow, &Trace)> = returning
        .iter()
        .filter_map(|(flow, source)| Some((*flow, trace_of(source)?)))
        .collect();
    if held.len() < SOURCES_MIN {
        return None;
    }
    let busiest = held.iter().map(|(_, trace)| trace.busiest(WINDOW));
    let busiest: Vec<u64> = busiest.collect();
    let least_far = far_above(&busiest).unwrap_or(u64::MAX);
    let mut usual = Vec::new();
    let mut far = Vec::new();
    for ((flow, trace), busiest) in held.iter().zip(&busiest) {
        if *busiest >= least_far {
            far.push((**flow, trace.packets()));
        } else {
            usual.push(*trace);
        }
    }
    far.sort_unstable_by_key(|(flow, packets)| (std::cmp::Reverse(*packets), *flow));
    let choice = choose(&usual, watched.duration)?;
    let (cost, burst) = (choose::cost(&choice.rate), choice.burst.tokens);
    let refused = |trace: &Trace| need::refused(trace, cost, burst);
    let of_all: Vec<u64> = held.iter().map(|(_, trace)| refused(trace)).collect();
    Some(Finding {
        service,
        choice,
        usual: usual.len(),
        usual_hit: usual.iter().filter(|trace| refused(trace) > 0).count(),
        far,
        sources: held.len(),
        hit: of_all.iter().filter(|dropped| **dropped > 0).count(),
        packets: held.iter().map(|(_, trace)| trace.packets()).sum(),
        dropped: of_all.iter().sum(),
    })
}

/// Services with a substantial share of the sources or the packets, by number. Sources in `far` are not counted.
fn services(returning: &Sources<'_>, far: &BTreeSet<Flow>) -> Vec<Service> {
    let mut by_service: BTreeMap<Service, (u64, u64)> = BTreeMap::new();
    let (mut sources, mut packets) = (0, 0);
    for (flow, source) in returning {
        if far.contains(flow) {
            continue;
        }
        sources += 1;
        packets += source.trace.packets();
        for (service, trace) in &source.services {
            let (sources, packets) = by_service.entry(*service).or_default();
            *sources += 1;
            *packets += trace.packets();
        }
    }
    let is_substantial = |of: &(u64, u64)| {
        of.0 >= SOURCES_MIN as u64
            && (of.0 * PART_OF_ALL >= sources || of.1 * PART_OF_ALL >= packets)
    };
    by_service.retain(|_, of| is_substantial(of));
    let mut services: Vec<Service> = by_service.keys().copied().collect();
    services.sort_by_key(|service| std::cmp::Reverse(by_service[service]));
    services.truncate(SERVICES_MAX);
    services.sort_unstable();
    services
}

/// Returns true if a limit is tighter than the last one in rate or burst. Otherwise the limit is superfluous.
fn is_tighter(choice: &Choice, than: &Choice) -> bool {
    choice.rate.per_second() < than.rate.per_second() || choice.burst.tokens < than.burst.tokens
}

fn limit(finding: &Finding) -> Limit {
    let choice = &finding.choice;
    Limit {
        matches: finding
            .service
            .map_or_else(Match::default, Service::matches),
        burst: Some(choice.burst),
        ..Limit::new(&finding.name(), choice.rate)
    }
}

impl Finding {
    /// The name of the finding's limit.
    pub fn name(&self) -> String {
        let service = self.service.as_ref();
        service.map_or_else(|| DEFAULT_LIMIT.to_owned(), Service::name)
    }
}
