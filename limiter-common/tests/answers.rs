//! A bucket returns its decision, an exact retry-after and the tokens left.

use limiter_common::arithmetic::{
    bucket::{self, Decision, TICK_SHIFT},
    quota::Quota,
    window::Window,
};

fn windows(burst: u64) -> Quota {
    Quota {
        tau: burst,
        cost: 1,
        window: Window {
            period: 1_000,
            phase: 70,
            grant: 3,
        },
        ..Quota::default()
    }
}

/// The stored TAT may belong to a window that has not begun by this CPU's clock, because another CPU wrote it.
#[test]
fn retry_after_of_a_window_is_exact() {
    let quota = windows(10);
    let mut waits = 0;
    for (left, cost) in (0..=10).flat_map(|left| (1..=10).map(move |cost| (left, cost))) {
        let moments = (1_000_000..1_003_000).step_by(137);
        for (now, ahead) in moments.flat_map(|now| (0..3).map(move |ahead| (now, ahead))) {
            let word = quota.window.word(now + ahead * quota.window.period, left);
            let Decision::Refuse { wait } = quota.decide(word, now, cost) else {
                assert!(cost <= left);
                continue;
            };
            let then = now + (wait >> TICK_SHIFT);
            let admits = |at| matches!(quota.decide(word, at, cost), Decision::Admit { .. });
            assert!(admits(then), "{left} left, cost {cost}, at {now}: {wait}");
            assert!(
                !admits(then - 1),
                "{left} left, cost {cost}, at {now}: {wait}"
            );
            waits += 1;
        }
    }
    assert!(waits > 1_500);
}

#[test]
fn window_bucket_continues_when_window_numbers_wrap() {
    let quota = windows(10);
    let begins = (1 << 31) * 1_000 - 70;
    let word = quota.window.word(begins - 1, 1);
    for (later, left) in [(0, 4), (999, 4), (1_000, 7), (2_000, 10), (9_000, 10)] {
        assert_eq!(quota.left(word, begins + later), left, "{later} ns later");
    }
    let Decision::Admit { tat } = quota.decide(word, begins, 4) else {
        panic!("four tokens are left");
    };
    assert_eq!(quota.left(tat, begins + 1_000), 3);
    // A clock that is behind refills nothing. The clocks of two CPUs differ by less than a window.
    assert_eq!(quota.left(tat, begins - 1), 0);
    assert_eq!(quota.corrected(tat, begins - 1), None);
    let two_ahead = quota.window.word(begins + 1_000, 5);
    let corrected = quota.window.word(begins - 1, 5);
    assert_eq!(quota.corrected(two_ahead, begins - 1), Some(corrected));
}

#[test]
fn tokens_left_and_spent_add_up_to_the_bucket() {
    let quota = Quota {
        tau: 1_000 << TICK_SHIFT,
        cost: 1,
        ..Quota::default()
    };
    let now = 5_000_000;
    for spent in [0, 1, 400, 1_000] {
        let word = bucket::ticks(now + spent);
        assert_eq!(quota.left(word, now), (1_000 - spent) << TICK_SHIFT);
    }
}

#[test]
fn refund_does_not_exceed_the_burst() {
    let quota = windows(10);
    let now = 1_000_000;
    for (left, cost, expected) in [(4, 3, 7), (7, 3, 10), (9, 3, 10)] {
        let word = quota.window.word(now, left);
        let refunded = quota.refunded(word, cost, now, now);
        assert_eq!(quota.left(refunded, now), expected, "{left} and {cost}");
    }
}
