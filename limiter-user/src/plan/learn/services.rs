//! Finds the services that get a limit of their own, and divides the traffic among them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use limiter_common::{abi::learn::Service, policy::protocols::TCP, table::key::Address};

use super::{Watched, combined::Bursts, sample::PORTLESS};

/// The minimum number of sources to tell usual sources from unusual ones.
pub const SOURCES_MIN: u64 = 5;

/// The most services with a limit of their own. Others share a limit.
const SERVICES_MAX: usize = 12;

/// The traffic that one limit sees.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The service; None: everything else.
    pub service: Option<Service>,
    /// The demand of each source that came back.
    pub sources: Vec<(Address, Bursts)>,
    /// Number of sources that sent one packet in all.
    pub once: u64,
}

/// The traffic to each service, the one with most sources first, and the rest.
pub fn divide(watched: &Watched) -> (Vec<Part>, Part) {
    let once = watched.sampler.once_by_service();
    let chosen = choose(watched, &once);
    let numbers: HashMap<Service, usize> = (chosen.iter().copied()).zip(0..).collect();
    let mut parts: Vec<Part> = chosen
        .iter()
        .map(|service| Part {
            service: Some(*service),
            once: once.get(service).copied().unwrap_or(0),
            ..Part::default()
        })
        .collect();
    let of_rest = once
        .iter()
        .filter(|(service, _)| !numbers.contains_key(*service));
    let mut rest = Part {
        once: of_rest.map(|(_, sources)| *sources).sum(),
        ..Part::default()
    };
    for (address, source) in &watched.sampler.sources {
        let mut others: Option<Bursts> = None;
        for (service, demand) in &source.demands {
            let bursts = Bursts::new(demand, watched.duration);
            match numbers.get(service) {
                Some(number) => parts[*number].sources.push((*address, bursts)),
                None => {
                    others = Some(match others {
                        Some(others) => others.with(&bursts, watched.duration),
                        None => bursts,
                    });
                }
            }
        }
        rest.sources.extend(others.map(|bursts| (*address, bursts)));
    }
    (parts, rest)
}

/// A service's sources that came back, how many of them sent it more than one packet, and all packets.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sources: u64,
    returning: u64,
    packets: u64,
}

/// The services with enough sources. A port of TCP also needs a segment that follows a handshake, and one of another protocol
/// sources that sent it several packets: otherwise, made-up sources could make services of any ports.
fn choose(watched: &Watched, once: &HashMap<Service, u64>) -> Vec<Service> {
    let mut counts: BTreeMap<Service, Count> = BTreeMap::new();
    let sources = watched.sampler.sources.values();
    for (service, demand) in sources.flat_map(|source| &source.demands) {
        let count = counts.entry(*service).or_default();
        count.sources += 1;
        count.returning += u64::from(demand.packets > 1);
        count.packets += demand.packets;
    }
    for (service, sources) in once {
        let count = counts.entry(*service).or_default();
        count.sources += sources;
        count.packets += sources;
    }
    counts.retain(|service, count| {
        let port = u16::try_from(service.port);
        *service != PORTLESS
            && match service.protocol {
                TCP => {
                    count.sources >= SOURCES_MIN
                        && port.is_ok_and(|port| watched.in_use.contains(&port))
                }
                _ => count.returning >= SOURCES_MIN,
            }
    });
    let mut services: Vec<_> = counts.into_iter().collect();
    services.sort_by_key(|(service, count)| (Reverse((count.sources, count.packets)), *service));
    services.truncate(SERVICES_MAX);
    services.into_iter().map(|(service, _)| service).collect()
}
