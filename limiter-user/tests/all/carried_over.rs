//! A bucket keeps its tokens over quota changes, even if it missed several changes or was written during one.

use limiter_common::arithmetic::{
    bucket::ticks,
    rescale::{Rescale, carry_over},
};
use limiter_config::{
    Algorithm, Limit,
    limit_quota::{LimitQuota, of_limit, rescale},
};

/// A moment in nanoseconds, in the middle of a window.
const SINCE: u64 = 1_000_000_000_123;

fn of(algorithm: Algorithm, rate: &str, burst: &str) -> LimitQuota {
    let limit = Limit {
        burst: Some(burst.parse().expect("a burst")),
        algorithm,
        ..Limit::new("default", rate.parse().expect("a rate"))
    };
    of_limit(&limit, 1).unwrap_or_else(|error| panic!("{rate}, {burst}: {error}"))
}

fn bucket(rate: &str, burst: &str) -> LimitQuota {
    of(Algorithm::TokenBucket, rate, burst)
}

fn window(rate: &str, burst: &str) -> LimitQuota {
    of(Algorithm::FixedWindow, rate, burst).at_phase(7)
}

/// Tokens left.
fn left(quota: &LimitQuota, word: u64, now: u64) -> f64 {
    let shift = 2_f64.powi(quota.in_kernel.cost_shift.cast_signed());
    quota.in_kernel.left(word, now) as f64 * shift / quota.token as f64
}

/// Panics if there are more tokens than expected, or fewer beyond rounding.
fn expect_left(quota: &LimitQuota, word: Option<u64>, now: u64, expected: f64, case: &str) {
    let left = left(quota, word.expect("all changes are known"), now);
    assert!(
        (expected - 1e-3..=expected).contains(&left),
        "{case}: {left} left, not {expected}"
    );
}

/// The old program runs while the new one is loaded. A charge by the old program counts from the beginning of its
/// window; the tokens before it have been refilled up to the change.
#[test]
fn window_written_during_a_change_counts_from_its_start() {
    let old = window("100/m", "150");
    let of_old = old.in_kernel.window;
    let began = SINCE - (SINCE + of_old.phase) % of_old.period;
    for new in [bucket("10/s", "400"), window("50/s", "400")] {
        let change = rescale(&old, &new, SINCE);
        for windows in 0..4 {
            let moment = (began + windows * of_old.period).max(SINCE);
            for tokens in [0, 10, 149, 150] {
                let case = format!("{tokens} tokens, {windows} windows later");
                let word = of_old.word(moment + 5, tokens);
                let carried = change.apply(word);
                let at_once = rescale(&old, &new, moment).apply(of_old.word(moment, tokens));
                assert_eq!(carried, at_once, "{case}");
                let expected = (400 - 150 + tokens) as f64;
                expect_left(&new, Some(carried), moment, expected, &case);
            }
        }
        let before = change.apply(of_old.word(SINCE - of_old.period, 10));
        expect_left(&new, Some(before), SINCE, 400.0 - 40.0, "a window before");
    }
}

/// A bucket may have had any state before the oldest remembered change: it is taken to be empty then.
#[test]
fn bucket_that_missed_too_many_changes_is_taken_as_empty() {
    let new = bucket("7/s", "100");
    for old in [bucket("5/s", "9"), window("100/m", "9")] {
        let only = rescale(&old, &new, SINCE);
        let full = old.in_kernel.full(SINCE - 1_000);
        for (behind, expected) in [(1, 100.0), (2, 91.0), (1_000, 91.0), (u32::MAX, 91.0)] {
            let carried = carry_over(full, behind, 1, |index| (index == 0).then_some(&only));
            expect_left(&new, carried, SINCE, expected, &format!("{behind} missed"));
        }
    }
}

/// This holds for buckets that are no deeper than their number of parts.
#[test]
fn burst_change_at_the_same_rate_rounds_nothing() {
    for (rate, small, large) in [
        ("1G/s", "100", "4k"),
        ("148800k/s", "100", "4k"),
        ("1M/s", "4", "1M"),
        ("400gbit", "3000b", "64kb"),
    ] {
        let (small, large) = (bucket(rate, small), bucket(rate, large));
        let tau = small.in_kernel.tau;
        assert!(tau < 1 << 20, "{rate}: {tau}");
        for spent in [0, 1, 2, tau / 3, tau / 2, tau - 1, tau] {
            let word = ticks(SINCE) + spent;
            let raised = rescale(&small, &large, SINCE).apply(word);
            assert_eq!(raised, word, "{rate}: {spent} of {tau}");
        }
    }
}

/// The program multiplies the spent parts by the value of one: the product fits into 64 bits with a bit to spare.
#[test]
fn conversion_between_extreme_quotas_does_not_overflow() {
    let all = [
        bucket("1/208d", "1"),
        bucket("1/d", "208"),
        bucket("5/s", "10"),
        bucket("1G/s", "16384"),
        bucket("1G/s", "32768"),
        bucket("148800k/s", "1G"),
        bucket("1bit", "1b"),
        bucket("1tbit", "1gb"),
        window("100/m", "150"),
        window("1/208d", "4294967295"),
    ];
    for (old, new) in all
        .iter()
        .flat_map(|old| all.iter().map(move |new| (old, new)))
    {
        let Rescale {
            chunk_to,
            chunks_most,
            ..
        } = rescale(old, new, SINCE);
        let most = u128::from(chunk_to) * u128::from(chunks_most);
        assert!(most < 1 << 63, "{old:?} to {new:?}: {most}");
    }
}
