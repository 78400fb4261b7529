//! `learn` proposes a usable limit for any traffic, by the bucket's own arithmetic, from a uniform sample of sources.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is a failed test, and figures that a test has chosen fit their types"
)]

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use limiter_common::{
    abi::{
        counters::Count,
        learn::{Sample, Service, Totals, source_of},
        rules::{ANY, NONE},
    },
    arithmetic::bucket::Decision,
    table::{Seed, key::Address},
};
use limiter_config::{Burst, Limit, Rate, file};
use limiter_user::plan::learn::{
    Proposal, Sampler, Watched,
    combined::Bursts,
    demand,
    demand::Demand,
    propose,
    sample::{ONCE_FACTOR, PORTLESS},
    show,
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

/// A port that is not told apart from others.
const SERVICE: Service = PORTLESS;

fn demands(sampler: &Sampler) -> usize {
    let sources = sampler.sources.values();
    sources.map(|source| source.demands.len()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A limit that sees the packets of two services refuses none of them.
    #[test]
    fn combined_bursts_admit_the_packets_of_both_services(
        first in arrivals(), second in arrivals(), pause in prop_oneof![Just(1), 0..100 * SECOND],
    ) {
        let duration = first.last().unwrap().0.max(second.last().unwrap().0) + pause;
        let bursts = [&first, &second].map(|arrivals| {
            let mut demand = Demand::default();
            arrivals.iter().for_each(|(time, packets)| demand.add(*time, *packets));
            Bursts::new(&demand, duration)
        });
        let both = bursts[0].with(&bursts[1], duration);
        let mut arrivals = [first, second].concat();
        arrivals.sort_unstable();
        prop_assert_eq!(both.packets, arrivals.iter().map(|(_, packets)| packets).sum::<u64>());
        for (index, rate) in demand::RATES.iter().map(|(rate, _)| *rate).enumerate() {
            let sent = both.packets as f64 / (duration as f64 / 1e9);
            match both.burst(index) {
                Some(burst) => prop_assert_eq!(refused(&arrivals, rate, burst), 0, "{}", rate),
                None => prop_assert!(sent > rate.per_second() * 0.999, "{sent} > {rate}"),
            }
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
        let service = Service {
            protocol: 6,
            port: rng.u32(..65_536),
        };
        sampler.see(time, source(number), service, 1);
        assert!(demands(&sampler) <= SOURCES);
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
        sampler.see(time, source(0x1_0000_0000 + n), SERVICE, 1);
        sampler.see(time, source(n % 50), SERVICE, 1);
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
        sampler.see(time, source(number), SERVICE, 1);
    }
    assert!(sampler.sources.len() > 20);
    for (source, known) in sampler.sources {
        assert_eq!(known.demands, [(SERVICE, sent[&source.words[0]].clone())]);
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
    let totals = Totals {
        seen,
        ..Totals::default()
    };
    Watched::new_observed(sampler, totals, HashSet::from([443]), [0, duration])
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
            let service = Service {
                protocol: [6, 17][rng.usize(..2)],
                port: [443, 53, 22, 80, NONE, ANY][rng.usize(..6)],
            };
            sampler.see(time, address, service, if rng.u8(..50) == 0 { heavy } else { 1 });
        }
        let watched = watched(sampler, duration);
        if let Ok(proposal) = propose(&watched) {
            let text = show::file(Some("eth0"), &watched, &proposal);
            let file = file::parse(&text, Path::new(".")).unwrap();
            prop_assert_eq!(&file.settings, &proposal.settings);
            prop_assert_eq!(file.interfaces, ["eth0"]);
            prop_assert!(text.lines().all(|line| line.len() <= 130));
            prop_assert_eq!(proposal.settings.problems(), vec![]);
            prop_assert_eq!(proposal.limits.len(), proposal.settings.limits.len());
            for limit in &proposal.limits {
                let most = limit.far.len() + limit.usual / 1_000;
                prop_assert!(limit.hit <= most, "{:?}", limit);
            }
        }
    }
}

/// The proposal for thirty sources that send a packet every 250 ms for a minute, and for packets in `more`.
fn proposed(more: impl IntoIterator<Item = (u64, Address)>) -> Proposal {
    let mut sampler = Sampler::new(Seed::KNOWN, 16_384);
    for time in (0..60 * SECOND).step_by(250_000_000) {
        (0..30).for_each(|number| sampler.see(time, source(number), SERVICE, 1));
    }
    more.into_iter()
        .for_each(|(time, source)| sampler.see(time, source, SERVICE, 1));
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
    let learned = &alone.limits[0];
    let needed = (learned.rate.to_string(), learned.burst, learned.hit);
    assert_eq!(needed, ("4/s".to_owned(), 1, 0));

    let flooded = proposed((0..100_000).map(|n| (n * 500_000, source(0xffff))));
    assert_eq!(flooded.settings.limits, alone.settings.limits);
    let learned = &flooded.limits[0];
    assert_eq!(learned.far, [(source(0xffff), 100_000)]);
    assert_eq!((learned.usual, learned.hit), (30, 1));

    let spoofed = proposed((0..200_000).map(|n| (n * 300_000, source(0x1_0000_0000 + n))));
    assert_eq!(spoofed.settings.limits, alone.settings.limits);
}

/// Six bursts of 50 packets, 100 seconds apart.
#[test]
fn bursty_sources_get_a_burst_rather_than_a_rate() {
    let mut sampler = Sampler::new(Seed::KNOWN, 16_384);
    for time in 0..6 {
        (0..9).for_each(|number| sampler.see(time * 100 * SECOND, source(number), SERVICE, 50));
    }
    let proposal = propose(&watched(sampler, 600 * SECOND)).unwrap();
    let limit = &proposal.settings.limits[0];
    let rate = (limit.rate.to_string(), limit.burst.unwrap().tokens);
    assert_eq!(rate, ("40/m".to_owned(), 75));
}

/// A minute of ten clients of a web server, of which six come once, and of a scanner of made-up ports. Made-up sources send once
/// to another port.
#[test]
fn services_that_answer_get_a_limit_and_others_share_one() {
    let service = |protocol, port| Service { protocol, port };
    let mut sampler = Sampler::new(Seed::KNOWN, 16_384);
    for second in 0..60 {
        let time = second * SECOND;
        (0..4).for_each(|number| sampler.see(time, source(number), service(6, 443), 2));
        (0..5).for_each(|number| sampler.see(time, source(20 + number), service(17, 53), 30));
        let port = u32::try_from(second).unwrap();
        sampler.see(time, source(50), service(6, 1_000 + port), 1);
        for number in 0..50 {
            sampler.see(
                time,
                source(0x1_0000 + second * 50 + number),
                service(6, 22),
                1,
            );
        }
    }
    (0..6).for_each(|number| sampler.see(60 * SECOND, source(10 + number), service(6, 443), 1));
    let proposal = propose(&watched(sampler, 61 * SECOND)).unwrap();
    let limits = proposal.settings.limits.iter();
    let found: Vec<_> = limits
        .map(|limit| {
            let burst = limit.burst.unwrap().tokens;
            (limit.name.clone(), limit.rate.to_string(), burst)
        })
        .collect();
    let expected = [
        ("tcp-443", "3/s", 5),
        ("udp-53", "40/s", 46),
        ("rest", "100/s", 200),
    ];
    let expected = expected.map(|(name, rate, burst)| (name.to_owned(), rate.to_owned(), burst));
    assert_eq!(found, expected);
    assert_eq!(proposal.limits[0].once, 6);
    assert_eq!(proposal.limits[2].once, 3_000);
    assert!(proposal.settings.limits[2].matches.other);
    // 50 made-up sources a second, and 10 of the others at first.
    assert_eq!(proposal.new_sources, (50, 60));
    let limit = proposal.settings.new_sources.unwrap();
    assert_eq!(
        (limit.rate.to_string().as_str(), limit.burst),
        ("500/s", Some(2_000))
    );
}

#[test]
fn limit_on_new_sources_is_for_the_size_of_the_service() {
    let proposed = |sources: u64| {
        let mut sampler = Sampler::new(Seed::KNOWN, 16_384);
        for number in 0..sources {
            let time = number * 100 * SECOND / sources;
            (0..2).for_each(|_| sampler.see(time, source(number), SERVICE, 1));
        }
        let settings = propose(&watched(sampler, 100 * SECOND)).unwrap().settings;
        let limit = settings.new_sources.unwrap();
        (limit.rate.to_string(), limit.burst)
    };
    for (sources, rate, burst) in [
        (10, "100/s", Some(1_000)),
        (1_500, "200/s", Some(1_000)),
        (15_000, "2k/s", Some(8_000)),
        (200_000, "10k/s", None),
    ] {
        assert_eq!(proposed(sources), (rate.to_owned(), burst), "{sources}");
    }
}
