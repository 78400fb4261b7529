//! Proposes limits from observed traffic: the tightest under which nearly all usual sources lose nothing.

use std::cmp::Reverse;

use anyhow::bail;
use limiter_common::{abi::learn::Service, table::key::Address};
use limiter_config::{
    Burst, Exempt, Limit, Match, Protocol, Rate, Settings,
    matches::PortRange,
    settings::{DEFAULT_LIMIT, SOURCES_MAX},
};

use super::{
    Watched,
    combined::Bursts,
    demand, new_sources,
    services::{self, Part, SOURCES_MIN},
};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// Limits of the duration, in nanoseconds. Less traffic says nothing. A bucket's clock has room for a few times as much.
const DURATION: std::ops::RangeInclusive<u64> = SECOND..=60 * DAY;
/// Minimum size of the table. Entries cost little.
const TABLE_MIN: u64 = 65_536;
/// The minimum burst, in packets. People often come several times at once, and five packets do not help a flood.
const BURST_MIN: u64 = 5;
/// Conditions for sources far above the rest: factor, part. The load of each is at least the factor times the load of
/// the next smaller source. They are at most one in `part` of all sources, but one source is always allowed.
const FAR_ABOVE: [(u64, usize); 2] = [(10, 20), (50, 4)];

/// The name of the limit on everything that no other one matches.
const REST: &str = "rest";
/// The least rate and burst of that limit, in packets per second and packets: it is for traffic that did not come while
/// `learn` watched.
const REST_MIN: (u64, u64) = (100, 200);

/// A proposed configuration, with the facts behind it.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The configuration, in shadow: a limit for each service and for the rest, with a margin.
    pub settings: Settings,
    /// The facts behind each limit, in their order.
    pub limits: Vec<Learned>,
    /// New sources that came: on average in a second, and the most in one second.
    pub new_sources: (u64, u64),
}

/// The facts behind a limit.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The rate that is just enough for 99.9 % of the usual sources.
    pub rate: Rate,
    /// The burst that is just enough with this rate, in packets.
    pub burst: u64,
    /// Number of usual sources that came back.
    pub usual: usize,
    /// Approximate number of sources that sent one packet.
    pub once: u64,
    /// The usual source that sent most, with its packets.
    pub busiest: Option<(Address, u64)>,
    /// Sources far above the usual ones, with their packets. The source that sends most comes first.
    pub far: Vec<(Address, u64)>,
    /// Number of all sources that would have lost packets.
    pub hit: usize,
}

/// Proposes limits under which 99.9 % of the usual sources would have lost nothing.
/// Fails if the traffic is not enough for a proposal.
pub fn propose(watched: &Watched) -> anyhow::Result<Proposal> {
    if !DURATION.contains(&watched.duration) {
        bail!(
            "nothing is proposed: the traffic lasts {} s; watch for at least 1 s, and use captures of at most 60 days in which the clock was not set",
            watched.duration / SECOND
        );
    }
    let (parts, rest) = services::divide(watched);
    if parts.is_empty() && (rest.sources.len() as u64) < SOURCES_MIN {
        bail!(
            "nothing is proposed: of {} IP packets beside {} of connections, only {} sources sent more than one; watch the interface that the traffic arrives on until at least {SOURCES_MIN} sources have, or write limits by hand",
            watched.totals.seen.packets,
            watched.totals.connections.packets,
            rest.sources.len()
        );
    }
    let has_services = !parts.is_empty();
    let most = parts.iter().chain([&rest]).map(|part| part.sources.len());
    let most = (most.max().unwrap_or(0) as u64) << watched.sampler.halvings;
    let mut proposed: Vec<(Limit, Learned)> = Vec::new();
    for part in &parts {
        proposed.push(limit(part, None)?);
    }
    proposed.push(limit(&rest, has_services.then_some(REST_MIN))?);
    let (limits, learned): (Vec<_>, Vec<_>) = proposed.into_iter().unzip();
    // Each limit has a share of the table, of which a part stays free.
    let shares = if has_services {
        3 * limits.len() as u64
    } else {
        1
    };
    let room = most
        .saturating_mul(2 * shares)
        .clamp(TABLE_MIN, SOURCES_MAX.into());
    Ok(Proposal {
        settings: Settings {
            max_sources: u32::try_from(room.next_power_of_two()).unwrap_or(SOURCES_MAX),
            new_sources: Some(new_sources::propose(watched)),
            exempt: Exempt {
                established: true,
                control: true,
                ..Exempt::default()
            },
            shadow: true,
            limits,
            ..Settings::default()
        },
        limits: learned,
        new_sources: new_sources::observed(watched),
    })
}

/// The limit for a part of the traffic. With `least` (packets per second, packets), it is for everything that no other limit
/// matches, and no tighter than that.
fn limit(part: &Part, least: Option<(u64, u64)>) -> anyhow::Result<(Limit, Learned)> {
    let loads = part.sources.iter().map(|(_, bursts)| bursts.load());
    let far_from = match (part.sources.len() as u64) < SOURCES_MIN {
        true => u64::MAX,
        false => far_above(loads.collect()).unwrap_or(u64::MAX),
    };
    let (usual, far): (Vec<_>, Vec<_>) =
        (part.sources.iter()).partition(|(_, bursts)| bursts.load() < far_from);
    let Some((index, needed)) = choose(&usual) else {
        bail!(
            "nothing is proposed: usual sources send more than 1M/s, the highest rate that learn proposes; write limits by hand"
        );
    };
    let (floor, least_burst) = match least {
        Some((rate, burst)) => (index_of(rate), burst),
        None => (0, BURST_MIN),
    };
    let higher = (index + 1).min(demand::RATES.len() - 1).max(floor);
    let burst = needed.saturating_add(needed / 2).max(least_burst);
    let is_hit = |bursts: &Bursts| bursts.burst(higher).is_none_or(|least| least > burst);
    let packets = |(source, bursts): &(Address, Bursts)| (*source, bursts.packets);
    let mut far: Vec<_> = far.into_iter().map(packets).collect();
    far.sort_unstable_by_key(|(source, packets)| (Reverse(*packets), *source));
    let busiest = usual.iter().map(|known| packets(known));
    let learned = Learned {
        rate: demand::RATES[index].0,
        burst: needed,
        usual: usual.len(),
        once: part.once,
        busiest: busiest.max_by_key(|(source, packets)| (*packets, Reverse(*source))),
        far,
        hit: (part.sources.iter())
            .filter(|(_, bursts)| is_hit(bursts))
            .count(),
    };
    let (name, matches) = match (part.service, least) {
        (Some(service), _) => of_service(service),
        (None, Some(_)) => (REST.to_owned(), Match::others()),
        (None, None) => (DEFAULT_LIMIT.to_owned(), Match::default()),
    };
    let limit = Limit {
        burst: Some(Burst {
            tokens: burst,
            unit: None,
        }),
        matches,
        ..Limit::new(&name, demand::RATES[higher].0)
    };
    Ok((limit, learned))
}

/// The name of a service's limit, as in `tcp-443`, and its match.
fn of_service(service: Service) -> (String, Match) {
    let protocol = Protocol(u8::try_from(service.protocol).unwrap_or(0));
    let matches = Match {
        protocol: Some(protocol),
        destination_port: vec![PortRange {
            first: service.port,
            last: service.port,
        }],
        ..Match::default()
    };
    (format!("{protocol}-{}", service.port), matches)
}

/// The index of the lowest rate that is at least so many packets per second.
fn index_of(rate: u64) -> usize {
    let wanted = Rate::packets_per_second(rate);
    let is_less = |(rate, _): &(Rate, u64)| rate.per_second() < wanted.per_second();
    demand::RATES
        .partition_point(is_less)
        .min(demand::RATES.len() - 1)
}

/// Finds the sources that are far above the rest. Returns the lowest load of these; none if there is no such source.
fn far_above(mut falling: Vec<u64>) -> Option<u64> {
    falling.sort_unstable_by_key(|load| Reverse(*load));
    let is_gap = |above: &usize| {
        FAR_ABOVE.iter().any(|(times, part)| {
            *above <= (falling.len() / part).max(1)
                && falling[above - 1] >= times.saturating_mul(falling[*above].max(1))
        })
    };
    let above = (1..falling.len()).rev().find(is_gap)?;
    Some(falling[above - 1])
}

/// Chooses the bucket with which 99.9 % of the sources lose nothing and a source at full speed gets the fewest packets
/// through: the index of its rate, and its burst. Without sources, the smallest bucket.
fn choose(sources: &[&(Address, Bursts)]) -> Option<(usize, u64)> {
    let Some(last) = kept(sources.len()).checked_sub(1) else {
        return Some((0, 1));
    };
    let enough = (0..demand::RATES.len()).filter_map(|index| {
        let bursts = sources.iter().map(|(_, bursts)| bursts.burst(index));
        let mut bursts: Vec<u64> = bursts.map(|burst| burst.unwrap_or(u64::MAX)).collect();
        let (_, burst, _) = bursts.select_nth_unstable(last);
        (*burst != u64::MAX).then(|| (demand::through(index, *burst), index, *burst))
    });
    enough.min().map(|(_, index, burst)| (index, burst))
}

/// The number of sources that should lose nothing: 99.9 %, rounded up.
fn kept(sources: usize) -> usize {
    sources - sources / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_above_finds_outliers_only_if_they_stand_apart() {
        let usual = [4, 5, 6, 7, 8, 9, 10, 11, 12, 30];
        for (more, expected, why) in [
            (&[][..], None, "usual sources"),
            (&[300], Some(300), "ten times the next one"),
            (&[299], None, "less than ten times the next one"),
            (&[5_000, 1_500], Some(1_500), "two, far enough"),
            (&[1_400, 1_400], None, "two, not so far"),
        ] {
            assert_eq!(far_above([&usual[..], more].concat()), expected, "{why}");
        }
        assert_eq!(far_above(vec![0; 5]), None);
    }

    #[test]
    fn kept_share_of_sources_is_rounded_up() {
        assert_eq!([0, 1, 999, 1_000, 1_001].map(kept), [0, 1, 999, 999, 1_000]);
    }
}
