//! `learn` proposes usable limits for any traffic, by the bucket's own arithmetic, from a uniform sample of sources.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is a failed test, and figures that a test has chosen fit their types"
)]

use std::collections::HashMap;

use limiter_common::{
    abi::{
        counters::Count,
        learn::{Flow, Sample, Totals},
    },
    arithmetic::bucket::{self, Decision},
    table::Seed,
};
use limiter_user::{
    config::{Limit, NewSources, Rate},
    plan::learn::{
        Bounds, Proposal, Sampler, Seen, TooLittle, Watched, choose::cost, human, need,
        propose::propose, sample::NEW_IN_SECOND_MAX, show, trace::Trace,
    },
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn rate() -> impl Strategy<Value = Rate> {
    proptest::sample::select(human::rates())
}

/// Times from 0 on, with gaps of all sizes, and packets at the same time.
fn arrivals(most: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![Just(0), 1..1_000_u64, 1..SECOND, SECOND..30 * SECOND];
    proptest::collection::vec((gap, 1..4_u64), 1..most).prop_map(|gaps| {
        let mut time = 0;
        gaps.into_iter()
            .map(|(gap, packets)| {
                time += gap;
                (time, packets)
            })
            .collect()
    })
}

fn trace_of(arrivals: &[(u64, u64)], room: usize) -> Trace {
    let mut trace = Trace::new(room);
    for (time, packets) in arrivals {
        trace.add(*time, *packets, 0);
    }
    trace
}

/// Number of packets that limiter refuses with the quota of its program; the traffic is repeated `rounds` times.
fn refused(arrivals: &[(u64, u64)], rate: Rate, burst: u64, period: u64, rounds: u64) -> u64 {
    let limit = Limit {
        burst: Some(human::burst(burst)),
        ..Limit::new("default", rate)
    };
    let quota = limit.quota(1).unwrap().in_kernel;
    let begin = SECOND;
    let mut tat = quota.full(begin);
    let mut refused = 0;
    for round in 0..rounds {
        for (time, packets) in arrivals {
            let now = begin + round * period + (time - arrivals[0].0);
            for _ in 0..*packets {
                match quota.decide(tat, now, quota.cost_of(60)) {
                    Decision::Admit { tat: after } => tat = after,
                    Decision::Refuse { .. } => refused += 1,
                }
            }
        }
    }
    refused
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn needed_burst_is_the_smallest_that_admits_all(
        arrivals in arrivals(60), rate in rate(), pause in prop_oneof![Just(1), 0..100 * SECOND],
    ) {
        let trace = trace_of(&arrivals, 1_000);
        let period = arrivals.last().unwrap().0 + pause;
        let fits = |rate: &Rate| {
            u128::from(trace.packets()) * u128::from(cost(rate))
                <= u128::from(period) << bucket::TICK_SHIFT
        };
        // The slowest sufficient rate, too: with it, the second round begins with the bucket that the first one left.
        for rate in human::rates().into_iter().find(fits).into_iter().chain([rate]) {
            let Some(burst) = need::burst(&trace, cost(&rate), period) else {
                prop_assert!(!fits(&rate), "no burst for a source that sends at most {rate}");
                continue;
            };
            prop_assert_eq!(refused(&arrivals, rate, burst, period, 5), 0);
            if burst > 1 {
                prop_assert!(refused(&arrivals, rate, burst - 1, period, 2) > 0);
            }
        }
    }

    #[test]
    fn coarse_trace_never_needs_a_smaller_burst(
        arrivals in arrivals(300), rate in rate(), room in 2..40_usize,
    ) {
        let period = arrivals.last().unwrap().0 + 60 * SECOND;
        let rough = trace_of(&arrivals, room);
        prop_assert!(rough.groups().len() <= room);
        if let Some(burst) = need::burst(&rough, cost(&rate), period) {
            prop_assert_eq!(refused(&arrivals, rate, burst, period, 3), 0);
        }
    }

    #[test]
    fn predicted_refusals_equal_those_of_the_bucket(
        arrivals in arrivals(80), rate in rate(), burst in 1..50_u64,
    ) {
        let trace = trace_of(&arrivals, 1_000);
        let expected = refused(&arrivals, rate, burst, 0, 1);
        prop_assert_eq!(need::refused(&trace, cost(&rate), burst), expected);
    }
}

fn flow(source: u64, port: u16) -> Flow {
    Flow::new([source, 0], 4, 17, port, false)
}

fn bounds(sources: usize, groups: usize) -> Bounds {
    Bounds {
        sources,
        once: 2 * sources,
        groups,
        of_source: 64,
        of_service: 32,
        services: 4,
    }
}

fn seen(time: u64, flow: Flow) -> Seen {
    Seen {
        time,
        spread: 0,
        flow,
        packets: 1,
    }
}

/// A flood of made-up sources, each with a few ports, takes little memory.
#[test]
fn sampler_memory_is_bounded_for_any_sources() {
    let mut rng = fastrand::Rng::with_seed(7);
    let bounds = bounds(500, 4_000);
    let mut sampler = Sampler::new(Seed::KNOWN, bounds);
    for time in 0..400_000 {
        let heavy = rng.u64(..20) == 0;
        let source = if heavy { rng.u64(..50) } else { rng.u64(..) };
        sampler.see(&seen(time, flow(source, rng.u16(1..12))));
        assert!(sampler.sources().len() <= bounds.sources);
        assert!(sampler.groups() <= bounds.groups);
        assert!(sampler.once_held() <= bounds.once);
        let held = || {
            sampler.sources().values().map(|source| {
                assert!(source.services.len() <= bounds.services);
                let services = source.services.values().map(|trace| trace.groups().len());
                source.trace.groups().len() + services.sum::<usize>()
            })
        };
        if time % 10_000 == 0 {
            assert_eq!(sampler.groups(), held().sum::<usize>(), "held groups");
        }
    }
    assert!(sampler.halvings() > 4, "{}", sampler.halvings());
}

/// Made-up sources that send once each do not push out sources that come back, however long the flood lasts.
#[test]
fn one_time_sources_do_not_displace_returning_sources() {
    let mut sampler = Sampler::new(Seed::KNOWN, bounds(100, 10_000));
    for n in 0..20_000 {
        let time = n * SECOND / 10;
        sampler.see(&seen(time, flow(0x1_0000_0000 + n, 53)));
        sampler.see(&seen(time, flow(n % 50, 53)));
        assert!(sampler.once_held() <= 200);
    }
    assert_eq!(sampler.halvings(), 0);
    assert_eq!((sampler.sources().len(), sampler.once()), (50, 20_000));
    let first = sampler.new_in_second();
    assert_eq!(first.values().sum::<u64>(), 20_050);
}

/// The clock of the capture may go back.
#[test]
fn sampler_memory_is_bounded_for_any_duration() {
    let mut sampler = Sampler::new(Seed::KNOWN, bounds(100, 10_000));
    for n in 0..250_000 {
        sampler.see(&seen(n * SECOND, flow(0x1_0000_0000 + n, 53)));
        assert!(sampler.new_in_second().len() <= NEW_IN_SECOND_MAX);
    }
    let years = 50 * 365 * 86_400 * SECOND;
    for time in [1, years] {
        (0..20).for_each(|source| sampler.see(&seen(time, flow(source, 53))));
    }
    let proposal = propose(&watched(sampler, 250_040, years)).map(drop);
    assert_eq!(proposal, Err(TooLittle::Clock(50 * 365)));
}

#[test]
fn sampled_source_has_all_its_packets() {
    let mut sampler = Sampler::new(Seed::KNOWN, bounds(100, 100_000));
    let mut sent = HashMap::<u64, (u64, u64)>::new();
    let mut rng = fastrand::Rng::with_seed(3);
    for time in 0..60_000 {
        let source = rng.u64(..3_000);
        sent.entry(source).or_insert((time, 0)).1 += 1;
        sampler.see(&seen(time, flow(source, 53)));
    }
    assert!(sampler.sources().len() > 20);
    for (of, source) in sampler.sources() {
        let held = (source.first, source.trace.packets());
        assert_eq!(held, sent[&of.address[0]]);
    }
}

/// One of 2^k sources of any kind: consecutive, far apart, or random; with any seed.
#[test]
fn sampling_is_uniform() {
    const SOURCES: u64 = 65_536;
    let mut rng = fastrand::Rng::with_seed(11);
    for round in 0..5 {
        let seed = Seed::new([rng.u64(..), rng.u64(..), rng.u64(..), rng.u64(..)]);
        let sources: [&dyn Fn(u64) -> u64; 3] = [
            &|n| n,
            &|n| u64::from((0x0a00_0000 + n as u32).to_be()),
            &|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        ];
        for (kind, source) in sources.iter().enumerate() {
            for halvings in [1, 4, 6] {
                let sample = Sample::one_in(halvings, seed);
                let smaller = Sample::one_in(halvings + 1, seed);
                let chosen = (0..SOURCES).map(|n| flow(source(n), 0));
                let chosen: Vec<Flow> = chosen.filter(|flow| sample.has(flow)).collect();
                assert!(chosen.iter().any(|flow| smaller.has(flow)));
                let expected = (SOURCES >> halvings) as f64;
                // Six standard deviations, of 180 draws.
                let most = 6.0 * (expected * (1.0 - expected / SOURCES as f64)).sqrt();
                let off = (chosen.len() as f64 - expected).abs();
                // Consecutive numbers may be spread more evenly than random ones, or in lines.
                assert!(
                    off <= 2.0 * most,
                    "round {round}, kind {kind}, 1/2^{halvings}: {off}"
                );
            }
        }
    }
}

fn watched(sampler: Sampler, packets: u64, duration: u64) -> Watched {
    let bytes = 60 * packets;
    let totals = Totals {
        seen: Count { packets, bytes },
        ..Totals::default()
    };
    Watched {
        sampler,
        totals,
        begun: 0,
        duration,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Any traffic gives a file that reads back (`show::file` checks it), or a reason why there is none.
    #[test]
    fn proposal_is_a_valid_file(
        seed in any::<u64>(), sources in 1..40_u64, packets in 1..3_000_u64,
        duration in 1..2_000 * SECOND, heavy in 1..5_000_u64,
    ) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut sampler = Sampler::new(Seed::KNOWN, bounds(64, 2_000));
        let mut times: Vec<u64> = (0..packets).map(|_| rng.u64(..duration)).collect();
        times.sort_unstable();
        for time in &times {
            let service = match rng.u8(..4) {
                0 => (6, 22, true),
                1 => (17, 53, false),
                2 => (17, rng.u16(..), false),
                _ => (rng.u8(..), rng.u16(..), rng.bool()),
            };
            let source = if rng.bool() { rng.u64(..sources) } else { rng.u64(..) };
            let family = if rng.bool() { 4 } else { 6 };
            let address = [source & if family == 4 { 0xffff_ffff } else { u64::MAX }, 0];
            let flow = Flow::new(address, family, service.0.into(), service.1, service.2);
            sampler.see(&Seen {
                packets: if rng.u8(..50) == 0 { heavy } else { 1 },
                ..seen(*time, flow)
            });
        }
        let watched = watched(sampler, packets, duration);
        if let Ok(proposal) = propose(&watched) {
            let text = show::file(Some("eth0"), &watched, &proposal);
            prop_assert!(text.is_ok(), "{text:?}");
            prop_assert!(text.unwrap().lines().all(|line| line.len() <= 130));
            prop_assert_eq!(proposal.settings.problems(), vec![]);
            for finding in &proposal.findings {
                prop_assert!(finding.dropped <= finding.packets);
                prop_assert!(finding.usual_hit <= finding.usual / 1_000, "{finding:?}");
            }
        }
    }
}

fn polite(sampler: &mut Sampler, sources: u64, duration: u64) -> u64 {
    let mut packets = 0;
    for time in (0..duration).step_by(250_000_000) {
        for source in 0..sources {
            sampler.see(&seen(time + source, flow(source, 53)));
            packets += 1;
        }
    }
    packets
}

/// The proposal for `sources` polite sources, and those that `more` adds.
fn proposed(sources: u64, more: impl FnOnce(&mut Sampler) -> u64) -> Proposal {
    let mut sampler = Sampler::new(Seed::KNOWN, Bounds::default());
    let packets = polite(&mut sampler, sources, 60 * SECOND);
    let packets = packets + more(&mut sampler);
    propose(&watched(sampler, packets, 60 * SECOND)).unwrap()
}

#[test]
fn flood_and_spoofed_sources_do_not_change_the_proposal() {
    let alone = proposed(30, |_| 0);
    let [only] = &alone.settings.limits[..] else {
        panic!("{alone:?}")
    };
    assert_eq!(only.rate.to_string(), "5/s");
    assert_eq!(only.burst.unwrap().tokens, 5);
    assert_eq!(alone.findings[0].hit, 0);

    let flooded = proposed(30, |sampler| {
        for time in 0..100_000 {
            sampler.see(&seen(time * 500_000, flow(0xffff, 53)));
        }
        100_000
    });
    assert_eq!(flooded.settings.limits, alone.settings.limits);
    let finding = flooded.findings.last().unwrap();
    assert_eq!(finding.far, [(flow(0xffff, 0).source(), 100_000)]);
    assert_eq!((finding.usual, finding.usual_hit, finding.hit), (30, 0, 1));
    assert!(finding.dropped > 99_000, "{finding:?}");

    let spoofed = proposed(30, |sampler| {
        for n in 0..200_000 {
            sampler.see(&seen(n * 300_000, flow(0x1_0000_0000 + n, 53)));
        }
        200_000
    });
    assert_eq!(spoofed.settings.limits, alone.settings.limits);
    assert!(spoofed.made_up);
}

#[test]
fn proposed_new_sources_is_four_times_the_peak_or_the_default() {
    let quiet = proposed(30, |_| 0);
    assert_eq!(quiet.settings.new_sources, Some(NewSources::default()));

    let busy = proposed(30, |sampler| {
        for n in 0..6_000 {
            let source = flow(0x1_0000_0000 + n % 3_000, 53);
            sampler.see(&seen(30 * SECOND + n * 100_000, source));
        }
        6_000
    });
    assert_eq!(busy.new_at_most, 3_000);
    let busy = busy.settings.new_sources.unwrap();
    assert_eq!(
        (busy.rate.to_string().as_str(), busy.burst),
        ("12k/s", None)
    );
}
