//! The documented numeric examples hold in the kernel and in the arithmetic alone.
//!
//! Times are the test's own, in nanoseconds. Each test starts long after the clock's zero.

use std::net::IpAddr;

use limiter_common::arithmetic::bucket;
use limiter_tests::{
    engine::{Engine, Limit, on_both},
    need_kernel,
    packet::{Frame, udp_of_length},
};
use limiter_user::config::{self, Algorithm};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// Start of the examples (t = 0), in nanoseconds.
const START: u64 = 1_000 * SECOND;
const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

/// Offers `count` packets at START + `at`. Returns the number that pass.
fn burst(engine: &mut dyn Engine, count: u32, at: u64) -> u32 {
    let packet = Frame::from(SOURCE).bytes();
    (0..count)
        .map(|_| u32::from(engine.passes(&packet, START + at)))
        .sum()
}

fn tokens(engine: &dyn Engine, at: u64) -> f64 {
    engine.tokens(SOURCE, START + at)
}

fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() < 1e-6
}

#[test]
fn example_1_one_rate_in_two_notations_behaves_the_same() {
    need_kernel!();
    for rate in ["5/s", "300/1m"] {
        on_both(&Limit::new(rate, "10"), |engine| {
            assert_eq!(burst(engine, 11, 0), 10, "{rate}");
            assert_eq!(burst(engine, 2, 200 * MS), 1, "{rate}");
            assert_eq!(burst(engine, 1, 400 * MS), 1, "{rate}");
        });
    }
}

#[test]
fn example_2_burst_is_spent_once_and_refills_at_the_rate() {
    need_kernel!();
    on_both(&Limit::new("5/s", "10"), |engine| {
        let passed: u32 = (0..20).map(|i| burst(engine, 1, i * 50 * MS)).sum();
        assert_eq!(passed, 14, "{}", engine.name());
    });
}

#[test]
fn example_3_tokens_left_match_after_each_packet() {
    need_kernel!();
    on_both(&Limit::new("1/s", "10"), |engine| {
        let left = [9.0, 8.1, 7.2, 6.3, 5.4, 4.5, 3.6, 2.7, 1.8, 0.9, 0.0];
        for (i, wanted) in (0..).zip(left) {
            assert_eq!(burst(engine, 1, i * 100 * MS), 1, "packet {i}");
            let found = tokens(engine, i * 100 * MS);
            assert!(
                close(found, wanted),
                "{} tokens after packet {i}: {found}",
                engine.name()
            );
        }
        assert_eq!(
            burst(engine, 1, 1_100 * MS),
            0,
            "packet 12 is the first to be dropped"
        );
        for i in 12..=59 {
            burst(engine, 1, i * 100 * MS);
        }
        let found = tokens(engine, 5_900 * MS);
        assert!(
            close(found, 0.9),
            "{} tokens at 5.9 s: {found}",
            engine.name()
        );
        let resumed = 5_900 * MS + 4 * SECOND;
        let passed: Vec<_> = (0..6)
            .map(|i| burst(engine, 1, resumed + i * 100 * MS))
            .collect();
        assert_eq!(passed, [1, 1, 1, 1, 1, 0], "after a pause of 4 s");
    });
}

#[test]
fn example_4_one_packet_in_six_passes_at_six_times_the_rate() {
    need_kernel!();
    on_both(&Limit::new("10/s", "50"), |engine| {
        let at = |packet: u64| packet * SECOND / 60;
        let passed: Vec<_> = (0..3_600).map(|i| burst(engine, 1, at(i))).collect();
        assert_eq!(passed[..59].iter().sum::<u32>(), 59);
        assert_eq!(passed[59], 0, "packet 60 is the first to be dropped");
        for minute in passed[60..].chunks_exact(60) {
            assert_eq!(minute.iter().sum::<u32>(), 10, "one packet of six passes");
        }
        let idle = at(3_600) + 5 * SECOND;
        assert!(close(tokens(engine, idle), 50.0));
        assert_eq!(burst(engine, 60, idle), 50);
    });
}

#[test]
fn example_5_ten_per_minute_never_exceeds_the_burst() {
    need_kernel!();
    on_both(&Limit::new("10/m", "10"), |engine| {
        assert_eq!(burst(engine, 5, 0), 5);
        assert!(close(tokens(engine, 30 * SECOND), 10.0));
        assert!(tokens(engine, 29 * SECOND) < 9.9);
    });
    on_both(&Limit::new("10/m", "20"), |engine| {
        assert_eq!(burst(engine, 21, 0), 20, "never 21");
        assert_eq!(burst(engine, 21, 3_600 * SECOND), 20, "also after an hour");
    });
}

#[test]
fn example_6_five_per_hour_admits_one_every_twelve_minutes() {
    need_kernel!();
    on_both(&Limit::new("5/h", "5"), |engine| {
        assert_eq!(burst(engine, 6, 0), 5);
        for slot in 1..=120 {
            assert_eq!(burst(engine, 2, slot * 720 * SECOND), 1, "slot {slot}");
        }
    });
}

#[test]
fn example_7_earlier_clock_refills_nothing() {
    need_kernel!();
    on_both(&Limit::new("5/s", "10"), |engine| {
        assert_eq!(burst(engine, 7, SECOND), 7);
        let earlier = SECOND - 1_000;
        assert_eq!(burst(engine, 2, earlier), 2, "two packets at once");
        assert!(
            burst(engine, 1, earlier) + burst(engine, 1, SECOND) >= 1,
            "the third packet within 1 us"
        );
    });
    on_both(&Limit::new("5/s", "10"), |engine| {
        assert_eq!(burst(engine, 7, 20 * SECOND), 7);
        assert_eq!(
            burst(engine, 1, 10 * SECOND),
            0,
            "an earlier clock refills nothing"
        );
        assert_eq!(
            burst(engine, 1, 12 * SECOND),
            1,
            "refused for at most burst / rate"
        );
    });
}

#[test]
fn example_8_packet_costs_its_bytes() {
    need_kernel!();
    // The rate is 100 bytes per second. A packet of 100 bytes costs 100 tokens.
    on_both(&Limit::new("800bit", "20000"), |engine| {
        let packet = udp_of_length(SOURCE, 100);
        let passed: u32 = (0..201)
            .map(|_| u32::from(engine.passes(&packet, START)))
            .sum();
        assert_eq!(passed, 200);
    });
    on_both(&Limit::new("800bit", "1522b"), |engine| {
        let packet = udp_of_length(SOURCE, 1_522);
        assert!(engine.passes(&packet, START), "a burst in one packet");
        assert!(
            !engine.passes(&udp_of_length(SOURCE, 60), START),
            "a packet after the whole burst"
        );
    });
    let mut limit = config::Limit::new("default", "800bit".parse().unwrap());
    limit.burst = Some("1521b".parse().unwrap());
    let refused = limit.quota(limiter_tests::engine::FRAME_MAX);
    assert!(
        refused.is_err(),
        "a frame that could never pass is refused by the configuration"
    );
}

#[test]
fn example_8_fixed_cost_takes_several_tokens_per_packet() {
    need_kernel!();
    let at_cost = |cost| Limit {
        cost: Some(cost),
        ..Limit::new("100/s", "1000")
    };
    on_both(&at_cost(5), |engine| assert_eq!(burst(engine, 300, 0), 200));
    on_both(&at_cost(1_000), |engine| assert_eq!(burst(engine, 3, 0), 1));
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
    on_both(&window("100"), |engine| {
        let late = first + MINUTE - 1;
        assert_eq!(burst(engine, 101, late), 100, "{}", engine.name());
        assert_eq!(burst(engine, 101, late + 1), 100, "the next window is full");
        assert_eq!(burst(engine, 1, late + MINUTE), 0);
    });
    on_both(&window("150"), |engine| {
        assert_eq!(burst(engine, 20, first), 20);
        assert_eq!(burst(engine, 200, first + MINUTE), 150, "not 180");
        assert_eq!(burst(engine, 200, first + 2 * MINUTE), 100);
    });
}

/// A new source has a full bucket, not a deeper one.
#[test]
fn first_packet_larger_than_the_burst_is_refused() {
    need_kernel!();
    on_both(&Limit::new("800bit", "1522b"), |engine| {
        let jumbo = udp_of_length(SOURCE, 3_000);
        assert!(!engine.passes(&jumbo, START), "{}", engine.name());
        assert!(
            engine.passes(&udp_of_length(SOURCE, 1_522), START),
            "the refused packet was charged"
        );
    });
}

#[test]
fn example_12_retry_after_is_exact() {
    need_kernel!();
    for (rate, empty_for) in [("5/s", 0.2), ("1/2s", 2.0)] {
        on_both(&Limit::new(rate, "1"), |engine| {
            assert_eq!(burst(engine, 1, 0), 1);
            assert!(
                close(engine.retry_after(SOURCE, START), empty_for),
                "{rate}"
            );
            let exact = (empty_for * 1e9) as u64;
            assert_eq!(burst(engine, 1, exact - 1), 0, "{rate}: not before");
            assert_eq!(burst(engine, 1, exact), 1, "{rate}: but then");
        });
    }
}

#[test]
fn example_13_burst_of_one_is_a_leaky_bucket() {
    need_kernel!();
    on_both(&Limit::new("10/s", "1"), |engine| {
        let passed: Vec<u64> = (0..5_000)
            .map(|i| i * MS)
            .filter(|at| burst(engine, 1, *at) == 1)
            .collect();
        assert_eq!(passed.len(), 50);
        assert!(
            passed.windows(2).all(|pair| pair[1] - pair[0] >= 100 * MS),
            "{passed:?}"
        );
    });
}

#[test]
fn example_14_bucket_is_full_after_months_and_years_idle() {
    need_kernel!();
    for days in [100, 3 * 365] {
        on_both(&Limit::new("5/s", "10"), |engine| {
            assert_eq!(burst(engine, 11, 0), 10);
            let back = days * 86_400 * SECOND;
            assert!(close(tokens(engine, back), 10.0), "{days} days");
            assert_eq!(
                burst(engine, 11, back),
                10,
                "{} after {days} days",
                engine.name()
            );
        });
    }
}

#[test]
fn clock_wrap_does_not_change_decisions() {
    need_kernel!();
    // Ticks wrap at 2^56 ns. No TAT is exactly there, because that would cost one more tick.
    let wrap = (1_u64 << (64 - bucket::TICK_SHIFT)) - START - 50 * MS;
    on_both(&Limit::new("5/s", "10"), |engine| {
        assert_eq!(burst(engine, 11, wrap - SECOND), 10);
        let passed: u32 = (0..20)
            .map(|i| burst(engine, 1, wrap - SECOND + i * 100 * MS))
            .sum();
        assert_eq!(passed, 9, "{}: 1.9 s at 5/s", engine.name());
    });
}
