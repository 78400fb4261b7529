//! `learn` proposes a usable limit for any traffic, by the bucket's own arithmetic, from a uniform sample of sources.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is a failed test, and figures that a test has chosen fit their types"
)]

use std::{collections::HashMap, path::Path};

use limiter_common::{
    abi::{
        counters::Count,
        learn::{Sample, Totals, source_of},
    },
    arithmetic::bucket::Decision,
    table::{Seed, key::Address},
};
use limiter_config::{Burst, Limit, Rate, file};
use limiter_user::plan::learn::{
    Proposal, Sampler, Watched, demand, demand::Demand, propose, sample::ONCE_FACTOR, show,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

/// Times from 0 on, with gaps of all sizes, and packets at the same time.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![Just(0), 1..1_000_u64, 1..SECOND, SECOND..30 * SECOND];
    proptest::collection::vec((gap, 1..4_u64), 1..60).prop_map(|gaps| {
        let times = gaps.into_iter().scan(0, |time, (gap, packets)| {
            *time += gap;
            Some((*time, packets))
        });
        times.collect()
    })
}

/// Number of packets that limiter refuses with the quota of its program.
fn refused(arrivals: &[(u64, u64)], rate: Rate, tokens: u64) -> u64 {
    let limit = Limit {
        burst: Some(Burst { tokens, unit: None }),
        ..Limit::new("default", rate)
    };
    let quota = limit.quota(1).unwrap().in_kernel;
    let mut tat = quota.full(SECOND);
    let mut refused = 0;
    for (time, packets) in arrivals {
        for _ in 0..*packets {
            match quota.decide(tat, SECOND + time, quota.cost_of(60)) {
                Decision::Admit { tat: after } => tat = after,
                Decision::Refuse { .. } => refused += 1,
            }
        }
    }
    refused
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn needed_burst_is_the_smallest_that_admits_all(
        arrivals in arrivals(), pause in prop_oneof![Just(1), 0..100 * SECOND],
    ) {
        let mut demand = Demand::default();
        arrivals.iter().for_each(|(time, packets)| demand.add(7 + time, *packets));
        let duration = arrivals.last().unwrap().0 + pause;
        for (index, rate) in demand::RATES.iter().map(|(rate, _)| *rate).enumerate() {
            let Some(burst) = demand.burst(index, duration) else {
                let sent = demand.packets as f64 / (duration as f64 / 1e9);
                prop_assert!(sent > rate.per_second() * 0.999, "{sent} > {rate}");
                continue;
            };
            prop_assert_eq!(refused(&arrivals, rate, burst), 0);
            prop_assert!(burst == 1 || refused(&arrivals, rate, burst - 1) > 0);
        }
    }
}

fn source(number: u64) -> Address {
    Address {
        family: 4,
        words: [number, 0],
        reserved: 0,
    }
}

/// A flood of made-up sources takes little memory.
#[test]
fn sampler_memory_is_bounded_for_any_sources() {
    const SOURCES: usize = 500;
    let mut rng = fastrand::Rng::with_seed(7);
    let mut sampler = Sampler::new(Seed::KNOWN, SOURCES);
    for time in 0..100_000 {
        let heavy = rng.u64(..20) == 0;
        let number = if heavy { rng.u64(..2_000) } else { rng.u64(..) };
        sampler.see(time, source(number), 1);
        assert!(sampler.sources.len() <= SOURCES);
        assert!(sampler.once() <= (ONCE_FACTOR * SOURCES) as u64);
    }
    assert!(sampler.halvings > 3, "{}", sampler.halvings);
}

/// Made-up sources that send once each do not push out sources that come back, however long the flood lasts.
#[test]
fn one_time_sources_do_not_displace_returning_sources() {
    let mut sampler = Sampler::new(Seed::KNOWN, 100);
    for n in 0..20_000 {
        let time = n * SECOND / 100;
        sampler.see(time, source(0x1_0000_0000 + n), 1);
        sampler.see(time, source(n % 50), 1);
    }
    assert_eq!(sampler.halvings, 0);
    assert_eq!((sampler.sources.len(), sampler.once()), (50, 20_000));
}

#[test]
fn sampled_source_has_all_its_packets() {
    let mut sampler = Sampler::new(Seed::KNOWN, 100);
    let mut sent = HashMap::<u64, Demand>::new();
    let mut rng = fastrand::Rng::with_seed(3);
    for time in 0..20_000 {
        let number = rng.u64(..1_000);
        sent.entry(number).or_default().add(time, 1);
        sampler.see(time, source(number), 1);
    }
    assert!(sampler.sources.len() > 20);
    for (source, demand) in sampler.sources {
        assert_eq!(demand, sent[&source.words[0]]);
    }
}

/// One of 2^k sources of any kind: consecutive, far apart, or random; with any seed.
#[test]
fn sampling_is_uniform() {
    const SOURCES: u64 = 65_536;
    let mut rng = fastrand::Rng::with_seed(11);
    for round in 0..5 {
        let seed = Seed::new(std::array::from_fn(|_| rng.u64(..)));
        let kinds: [fn(u64) -> u64; 3] = [
            |n| n,
            |n| u64::from((0x0a00_0000 + n as u32).to_be()),
            |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ];
        for (kind, number) in kinds.iter().enumerate() {
            for halvings in [1, 4, 6] {
                let sample = Sample::one_in(halvings, seed);
                let sources = (0..SOURCES).map(|n| source(number(n)));
                let chosen = sources.filter(|source| sample.has(source)).count() as f64;
                let expected = (SOURCES >> halvings) as f64;
                // Twelve standard deviations are enough for consecutive numbers, which may be less random than others.
                let most = 12.0 * (expected * (1.0 - expected / SOURCES as f64)).sqrt();
                let off = (chosen - expected).abs();
                assert!(off <= most, "round {round}, kind {kind}, {halvings}: {off}");
            }
        }
    }
}

fn watched(sampler: Sampler, duration: u64) -> Watched {
    let seen = Count {
        packets: 1_000_000,
        bytes: 60_000_000,
    };
    Watched {
        sampler,
        totals: Totals {
            seen,
            ..Totals::default()
        },
        begun: 0,
        duration,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Any traffic gives a file that reads back as the proposal, or a reason why there is none.
    #[test]
    fn proposal_is_a_valid_file(
        seed in any::<u64>(), sources in 1..40_u64, packets in 1..3_000_u64,
        duration in 1..2_000 * SECOND, heavy in 1..5_000_u64,
    ) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut sampler = Sampler::new(Seed::KNOWN, 64);
        let mut times: Vec<u64> = (0..packets).map(|_| rng.u64(..duration)).collect();
        times.sort_unstable();
        for time in times {
            let number = if rng.bool() { rng.u64(..sources) } else { rng.u64(..) };
            let address = if rng.bool() {
                source(number & 0xffff_ffff)
            } else {
                source_of(&Address::ipv6([number, rng.u64(..)]))
            };
            sampler.see(time, address, if rng.u8(..50) == 0 { heavy } else { 1 });
        }
        let watched = watched(sampler, duration);
        if let Ok(proposal) = propose(&watched) {
            let text = show::file(Some("eth0"), &watched, &proposal);
            let file = file::parse(&text, Path::new(".")).unwrap();
            prop_assert_eq!(&file.settings, &proposal.settings);
            prop_assert_eq!(file.interfaces, ["eth0"]);
            prop_assert!(text.lines().all(|line| line.len() <= 130));
            prop_assert_eq!(proposal.settings.problems(), vec![]);
            let most = proposal.far.len() + proposal.usual / 1_000;
            prop_assert!(proposal.hit <= most, "{proposal:?}");
        }
    }
}

/// The proposal for thirty sources that send a packet every 250 ms for a minute, and for packets in `more`.
fn proposed(more: impl IntoIterator<Item = (u64, Address)>) -> Proposal {
    let mut sampler = Sampler::new(Seed::KNOWN, 16_384);
    for time in (0..60 * SECOND).step_by(250_000_000) {
        (0..30).for_each(|number| sampler.see(time, source(number), 1));
    }
    more.into_iter()
        .for_each(|(time, source)| sampler.see(time, source, 1));
    propose(&watched(sampler, 60 * SECOND)).unwrap()
}

#[test]
fn flood_and_spoofed_sources_do_not_change_the_proposal() {
    let alone = proposed([]);
    let [only] = &alone.settings.limits[..] else {
        panic!("{alone:?}")
    };
    assert_eq!(
        (only.rate.to_string().as_str(), only.burst.unwrap().tokens),
        ("6/s", 5)
    );
    let needed = (alone.rate.to_string(), alone.burst, alone.hit);
    assert_eq!(needed, ("4/s".to_owned(), 1, 0));

    let flooded = proposed((0..100_000).map(|n| (n * 500_000, source(0xffff))));
    assert_eq!(flooded.settings.limits, alone.settings.limits);
    assert_eq!(flooded.far, [(source(0xffff), 100_000)]);
    assert_eq!((flooded.usual, flooded.hit), (30, 1));

    let spoofed = proposed((0..200_000).map(|n| (n * 300_000, source(0x1_0000_0000 + n))));
    assert_eq!(spoofed.settings.limits, alone.settings.limits);
}

/// Six bursts of 50 packets, 100 seconds apart.
#[test]
fn bursty_sources_get_a_burst_rather_than_a_rate() {
    let mut sampler = Sampler::new(Seed::KNOWN, 16_384);
    for time in 0..6 {
        (0..9).for_each(|number| sampler.see(time * 100 * SECOND, source(number), 50));
    }
    let proposal = propose(&watched(sampler, 600 * SECOND)).unwrap();
    let limit = &proposal.settings.limits[0];
    let rate = (limit.rate.to_string(), limit.burst.unwrap().tokens);
    assert_eq!(rate, ("40/m".to_owned(), 75));
}
