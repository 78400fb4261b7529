//! Proposes a limit from observed traffic: the tightest under which nearly all usual sources lose nothing.

use std::cmp::Reverse;

use anyhow::bail;
use limiter_common::table::key::Address;
use limiter_config::{
    Burst, Exempt, Limit, Rate, Settings,
    settings::{DEFAULT_LIMIT, SOURCES_MAX},
};

use super::{
    Watched,
    demand::{self, Demand},
};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// Limits of the duration, in nanoseconds. Less traffic says nothing. A bucket's clock has room for a few times as much.
const DURATION: std::ops::RangeInclusive<u64> = SECOND..=60 * DAY;
/// The minimum number of sources to tell usual sources from unusual ones.
const SOURCES_MIN: usize = 5;
/// Minimum size of the table. Entries cost little.
const TABLE_MIN: u64 = 65_536;
/// The minimum burst, in packets. People often come several times at once, and five packets do not help a flood.
const BURST_MIN: u64 = 5;
/// Conditions for sources far above the rest: factor, part. The load of each is at least the factor times the load of
/// the next smaller source. They are at most one in `part` of all sources, but one source is always allowed.
const FAR_ABOVE: [(u64, usize); 2] = [(10, 20), (50, 4)];

/// A proposed configuration, with the facts behind it.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The configuration, in shadow: one limit, with a margin.
    pub settings: Settings,
    /// The rate that is just enough for 99.9 % of the usual sources.
    pub rate: Rate,
    /// The burst that is just enough with this rate, in packets.
    pub burst: u64,
    /// Number of usual sources.
    pub usual: usize,
    /// Sources far above the usual ones, with their packets. The source that sends most comes first.
    pub far: Vec<(Address, u64)>,
    /// Number of all sources that would have lost packets.
    pub hit: usize,
}

/// Proposes a limit under which 99.9 % of the usual sources would have lost nothing.
/// Fails if the traffic is not enough for a proposal.
pub fn propose(watched: &Watched) -> anyhow::Result<Proposal> {
    if !DURATION.contains(&watched.duration) {
        bail!(
            "nothing is proposed: the traffic lasts {} s; watch for at least 1 s, and use captures of at most 60 days in which the clock was not set",
            watched.duration / SECOND
        );
    }
    let sources = &watched.sampler.sources;
    if sources.len() < SOURCES_MIN {
        bail!(
            "nothing is proposed: of {} IP packets, only {} sources sent more than one; watch the interface that the traffic arrives on until at least {SOURCES_MIN} sources have, or write limits by hand",
            watched.totals.seen.packets,
            sources.len()
        );
    }
    let duration = watched.duration;
    let loads = sources.values().map(|demand| demand.load(duration));
    let far_from = far_above(loads.collect()).unwrap_or(u64::MAX);
    let (usual, far): (Vec<_>, Vec<_>) = sources
        .iter()
        .partition(|(_, demand)| demand.load(duration) < far_from);
    let usual: Vec<&Demand> = usual.into_iter().map(|(_, demand)| demand).collect();
    let far = far
        .into_iter()
        .map(|(source, demand)| (*source, demand.packets));
    let mut far: Vec<(Address, u64)> = far.collect();
    far.sort_unstable_by_key(|(source, packets)| (Reverse(*packets), *source));
    let Some((index, needed)) = choose(&usual, duration) else {
        bail!(
            "nothing is proposed: usual sources send more than 1M/s, the highest rate that learn proposes; write limits by hand"
        );
    };
    let higher = (index + 1).min(demand::RATES.len() - 1);
    let burst = needed.saturating_add(needed / 2).max(BURST_MIN);
    let is_hit = |demand: &&Demand| {
        demand
            .burst(higher, duration)
            .is_none_or(|least| least > burst)
    };
    let returning = (sources.len() as u64) << watched.sampler.halvings;
    let room = (2 * returning).clamp(TABLE_MIN, SOURCES_MAX.into());
    Ok(Proposal {
        settings: Settings {
            max_sources: u32::try_from(room.next_power_of_two()).unwrap_or(SOURCES_MAX),
            exempt: Exempt {
                established: true,
                control: true,
                ..Exempt::default()
            },
            shadow: true,
            limits: vec![Limit {
                burst: Some(Burst {
                    tokens: burst,
                    unit: None,
                }),
                ..Limit::new(DEFAULT_LIMIT, demand::RATES[higher].0)
            }],
            ..Settings::default()
        },
        rate: demand::RATES[index].0,
        burst: needed,
        usual: usual.len(),
        far,
        hit: sources.values().filter(is_hit).count(),
    })
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
/// through: the index of its rate, and its burst.
fn choose(sources: &[&Demand], duration: u64) -> Option<(usize, u64)> {
    let last = kept(sources.len()).checked_sub(1)?;
    let enough = (0..demand::RATES.len()).filter_map(|index| {
        let bursts = sources.iter().map(|demand| demand.burst(index, duration));
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
