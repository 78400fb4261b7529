//! The documented numeric examples hold in the kernel and in the arithmetic alone.
//!
//! Times are the test's own, in nanoseconds. Each test starts long after the clock's zero.

use std::{cell::Cell, net::IpAddr};

use limiter_common::arithmetic::{
    bucket::{self, Decision},
    quota::Quota,
};
use limiter_config::Algorithm;
use limiter_tests::{
    engine::{FRAME_MAX, Kernel, Limit},
    need_kernel,
    packet::{Frame, udp_of_length},
};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// Start of the examples (t = 0), in nanoseconds.
const START: u64 = 1_000 * SECOND;
const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

/// The programs in the kernel, at the driver and in the network stack, beside the arithmetic alone: all decide about each
/// packet of the source.
struct Both {
    kernels: Vec<Kernel>,
    limit: Limit,
    quota: Quota,
    /// The bucket of the arithmetic. `None` before the first packet: the bucket is full.
    tat: Cell<Option<u64>>,
}

impl Both {
    fn new(limit: &Limit) -> Self {
        Self {
            kernels: Kernel::at_each_hook(limit),
            limit: limit.clone(),
            quota: limit.config().limits[0].quota,
            tat: Cell::new(None),
        }
    }

    /// True if `packet` passes at time `now`. Fails if kernel and arithmetic differ in verdict or TAT.
    fn passes(&self, packet: &[u8], now: u64) -> bool {
        let tat = self.tat.get().unwrap_or_else(|| self.quota.full(now));
        let cost = self.quota.cost_of(packet.len() as u64);
        // A corrected bucket decides once more.
        let tat = match self.quota.decide(tat, now, cost) {
            Decision::Refuse { .. } => self.quota.corrected(tat, now).unwrap_or(tat),
            Decision::Admit { .. } => tat,
        };
        let (passes, tat) = match self.quota.decide(tat, now, cost) {
            Decision::Admit { tat } => (true, tat),
            Decision::Refuse { .. } => (false, tat),
        };
        self.tat.set(Some(tat));
        for kernel in &self.kernels {
            assert_eq!(kernel.passes(packet, now), passes, "at {now} ns");
            if let Some(entry) = kernel.entry(&self.limit.of(SOURCE)) {
                assert_eq!(entry.tat, tat, "at {now} ns");
            }
        }
        passes
    }
}

/// Offers `count` packets at START + `at`. Returns the number that pass.
fn burst(both: &Both, count: u32, moment: u64) -> u32 {
    let packet = Frame::from(SOURCE).bytes();
    (0..count)
        .map(|_| u32::from(both.passes(&packet, START + moment)))
        .sum()
}

/// Both engines after these bursts: time since START, number of packets, and number of packets that must pass.
fn after(limit: &Limit, bursts: &[(u64, u32, u32)]) -> Both {
    let both = Both::new(limit);
    for (moment, count, passing) in bursts {
        let passed = burst(&both, *count, *moment);
        assert_eq!(passed, *passing, "{limit:?}, {moment} ns");
    }
    both
}

fn tokens(both: &Both, moment: u64) -> f64 {
    both.kernels[0].check(SOURCE, START + moment).0
}

fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() < 1e-6
}

#[test]
fn example_1_one_rate_in_two_notations_behaves_the_same() {
    need_kernel!();
    for rate in ["5/s", "300/1m"] {
        let limit = Limit::new(rate, "10");
        after(&limit, &[(0, 11, 10), (200 * MS, 2, 1), (400 * MS, 1, 1)]);
    }
}

#[test]
fn example_2_burst_is_spent_once_and_refills_at_the_rate() {
    need_kernel!();
    let both = Both::new(&Limit::new("5/s", "10"));
    let passed: u32 = (0..20).map(|i| burst(&both, 1, i * 50 * MS)).sum();
    assert_eq!(passed, 14);
}

#[test]
fn example_3_tokens_left_match_after_each_packet() {
    need_kernel!();
    let both = Both::new(&Limit::new("1/s", "10"));
    let left = [9.0, 8.1, 7.2, 6.3, 5.4, 4.5, 3.6, 2.7, 1.8, 0.9, 0.0];
    for (i, wanted) in (0..).zip(left) {
        assert_eq!(burst(&both, 1, i * 100 * MS), 1, "packet {i}");
        let found = tokens(&both, i * 100 * MS);
        assert!(close(found, wanted), "tokens after packet {i}: {found}");
    }
    let twelfth = burst(&both, 1, 1_100 * MS);
    assert_eq!(twelfth, 0, "packet 12 is the first to be dropped");
    for i in 12..=59 {
        burst(&both, 1, i * 100 * MS);
    }
    let found = tokens(&both, 5_900 * MS);
    assert!(close(found, 0.9), "tokens at 5.9 s: {found}");
    let resumed = 5_900 * MS + 4 * SECOND;
    let passed = [0, 1, 2, 3, 4, 5].map(|i| burst(&both, 1, resumed + i * 100 * MS));
    assert_eq!(passed, [1, 1, 1, 1, 1, 0], "after a pause of 4 s");
}

#[test]
fn example_4_one_packet_in_six_passes_at_six_times_the_rate() {
    need_kernel!();
    let both = Both::new(&Limit::new("10/s", "50"));
    let moment = |packet: u64| packet * SECOND / 60;
    let passed: Vec<_> = (0..3_600).map(|i| burst(&both, 1, moment(i))).collect();
    assert_eq!(passed[..59].iter().sum::<u32>(), 59);
    assert_eq!(passed[59], 0, "packet 60 is the first to be dropped");
    for minute in passed[60..].chunks_exact(60) {
        assert_eq!(minute.iter().sum::<u32>(), 10, "one packet of six passes");
    }
    let idle = moment(3_600) + 5 * SECOND;
    assert!(close(tokens(&both, idle), 50.0));
    assert_eq!(burst(&both, 60, idle), 50);
}

#[test]
fn example_5_ten_per_minute_never_exceeds_the_burst() {
    need_kernel!();
    let both = after(&Limit::new("10/m", "10"), &[(0, 5, 5)]);
    assert!(close(tokens(&both, 30 * SECOND), 10.0));
    assert!(tokens(&both, 29 * SECOND) < 9.9);
    let an_hour = 3_600 * SECOND;
    after(&Limit::new("10/m", "20"), &[(0, 21, 20), (an_hour, 21, 20)]);
}

#[test]
fn example_6_five_per_hour_admits_one_every_twelve_minutes() {
    need_kernel!();
    let slots = (1..=120).map(|slot| (slot * 720 * SECOND, 2, 1));
    let bursts: Vec<_> = [(0, 6, 5)].into_iter().chain(slots).collect();
    after(&Limit::new("5/h", "5"), &bursts);
}

#[test]
fn example_7_earlier_clock_refills_nothing() {
    need_kernel!();
    let limit = Limit::new("5/s", "10");
    let earlier = SECOND - 1_000;
    let both = after(&limit, &[(SECOND, 7, 7), (earlier, 2, 2)]);
    let third = burst(&both, 1, earlier) + burst(&both, 1, SECOND);
    assert!(third >= 1, "the third packet passes within 1 us");
    // The source is refused for at most burst / rate.
    let bursts = [(20, 7, 7), (10, 1, 0), (12, 1, 1)];
    after(
        &limit,
        &bursts.map(|(seconds, count, passing)| (seconds * SECOND, count, passing)),
    );
}

#[test]
fn example_8_packet_costs_its_bytes() {
    need_kernel!();
    // The rate is 100 bytes per second. A packet of 100 bytes costs 100 tokens.
    let both = Both::new(&Limit::new("800bit", "20000"));
    let packet = udp_of_length(SOURCE, 100);
    let passed = (0..201).filter(|_| both.passes(&packet, START)).count();
    assert_eq!(passed, 200);
    // A new source has a full bucket, not a deeper one: the first packet is longer than the burst.
    let both = Both::new(&Limit::new("800bit", "1522b"));
    for (length, passes) in [(3_000, false), (1_522, true), (60, false)] {
        let packet = udp_of_length(SOURCE, length);
        assert_eq!(both.passes(&packet, START), passes, "{length} bytes");
    }
    // The configuration refuses a burst that is shorter than a frame.
    let mut limit = limiter_config::Limit::new("default", "800bit".parse().unwrap());
    limit.burst = Some("1521b".parse().unwrap());
    assert!(limit.quota(FRAME_MAX).is_err());
}

#[test]
fn example_8_fixed_cost_takes_several_tokens_per_packet() {
    need_kernel!();
    for (cost, bursts) in [(5, (0, 300, 200)), (1_000, (0, 3, 1))] {
        let limit = Limit {
            cost: Some(cost),
            ..Limit::new("100/s", "1000")
        };
        after(&limit, &[bursts]);
    }
}

#[test]
fn example_11_fixed_window_grants_tokens_per_window() {
    need_kernel!();
    let window = |burst| Limit {
        algorithm: Algorithm::FixedWindow,
        ..Limit::new("100/m", burst)
    };
    const MINUTE: u64 = 60 * SECOND;
    // Windows begin at multiples of their length since the clock's zero.
    let first = MINUTE - START % MINUTE;
    let late = first + MINUTE - 1;
    let full_twice = [(late, 101, 100), (late + 1, 101, 100)];
    after(
        &window("100"),
        &[&full_twice[..], &[(late + MINUTE, 1, 0)]].concat(),
    );
    // The unused 80 tokens of the first window are kept up to the burst.
    let second = (first + MINUTE, 200, 150);
    after(
        &window("150"),
        &[(first, 20, 20), second, (first + 2 * MINUTE, 200, 100)],
    );
}

#[test]
fn example_12_retry_after_is_exact() {
    need_kernel!();
    for (rate, empty_for) in [("5/s", 0.2), ("1/2s", 2.0)] {
        let both = after(&Limit::new(rate, "1"), &[(0, 1, 1)]);
        assert!(
            close(both.kernels[0].check(SOURCE, START).1, empty_for),
            "{rate}"
        );
        let exact = (empty_for * 1e9) as u64;
        assert_eq!(burst(&both, 1, exact - 1), 0, "{rate}: not before");
        assert_eq!(burst(&both, 1, exact), 1, "{rate}: but then");
    }
}

#[test]
fn example_13_burst_of_one_is_a_leaky_bucket() {
    need_kernel!();
    let both = Both::new(&Limit::new("10/s", "1"));
    let times = (0..5_000).map(|i| i * MS);
    let passed: Vec<u64> = times
        .filter(|moment| burst(&both, 1, *moment) == 1)
        .collect();
    assert_eq!(passed.len(), 50);
    let apart = passed.windows(2).all(|pair| pair[1] - pair[0] >= 100 * MS);
    assert!(apart, "{passed:?}");
}

#[test]
fn example_14_bucket_is_full_after_months_and_years_idle() {
    need_kernel!();
    // Half of the range of ticks is 417 days, and the whole range 834.
    for days in [100, 416, 418, 2 * 365, 832, 835, 3 * 365, 5 * 365] {
        let both = after(&Limit::new("5/s", "10"), &[(0, 11, 10)]);
        let back = days * 86_400 * SECOND;
        assert!(close(tokens(&both, back), 10.0), "{days} days");
        assert_eq!(burst(&both, 11, back), 10, "{days} days");
    }
}

#[test]
fn example_15_default_burst_is_the_amount_of_the_period() {
    need_kernel!();
    for (rate, capacity, next) in [
        ("10/1m", 10, 6 * SECOND),
        ("6/30s", 6, 5 * SECOND),
        ("5/s", 5, 200 * MS),
        ("1/d", 1, 86_400 * SECOND),
    ] {
        let limit = Limit {
            burst: None,
            ..Limit::new(rate, "1")
        };
        after(&limit, &[(0, capacity + 1, capacity), (next, 2, 1)]);
    }
}

#[test]
fn clock_wrap_does_not_change_decisions() {
    need_kernel!();
    // Ticks wrap at 2^56 ns. No TAT is exactly there, because that would cost one more tick.
    let wrap = (1_u64 << (64 - bucket::TICK_SHIFT)) - START - 50 * MS;
    let before = wrap - SECOND;
    let both = after(&Limit::new("5/s", "10"), &[(before, 11, 10)]);
    let passed: u32 = (0..20)
        .map(|i| burst(&both, 1, before + i * 100 * MS))
        .sum();
    assert_eq!(passed, 9, "1.9 s at 5/s");
}
