//! Fixed windows decide exactly as a model over integers of any size.

use crate::exact::{cases, draw::magnitude, expect_exact_within};
use limiter_common::arithmetic::{
    bucket::{Decision, TICK_SHIFT, is_time},
    quota::Quota,
    window::{TOKENS_MAX, Window},
};
use num_bigint::BigInt;
use proptest::{collection::vec, prelude::*};

const SECOND: u64 = 1_000_000_000;

/// Quotas with windows of whole seconds, up to 208 days, that begin anywhere.
fn quota() -> impl Strategy<Value = Quota> {
    let seconds = prop_oneof![2 => Just(1), 2 => Just(60), 1 => magnitude(208 * 86_400)];
    let few = || prop_oneof![2 => 1..20_u64, 1 => magnitude(TOKENS_MAX), 1 => Just(TOKENS_MAX)];
    (seconds, any::<u64>(), few(), few()).prop_map(|(seconds, phase, grant, tau)| {
        let period = seconds * SECOND;
        Quota {
            tau,
            cost: 1,
            window: Window {
                period,
                phase: phase % period,
                grant,
            },
            ..Quota::default()
        }
    })
}

/// Years of the kernel's clock, so that no later time reaches its end.
fn moments() -> impl Strategy<Value = u64> {
    (1_u64 << 58)..(1 << 60)
}

/// A window's bucket with unbounded integers.
struct Model {
    quota: Quota,
    left: BigInt,
    /// Number of the latest window in which a packet passed.
    window: BigInt,
}

impl Model {
    fn full(quota: Quota, now: u64) -> Self {
        Self {
            quota,
            left: quota.tau.into(),
            window: Self::number(&quota, now),
        }
    }

    fn number(quota: &Quota, now: u64) -> BigInt {
        (BigInt::from(now) + quota.window.phase) / quota.window.period
    }

    /// Tokens left, with those of the windows that have begun since the last packet passed.
    fn left(&self, now: u64) -> BigInt {
        let windows = (Self::number(&self.quota, now) - &self.window).max(BigInt::ZERO);
        (&self.left + windows * self.quota.window.grant).min(self.quota.tau.into())
    }

    /// Windows that give this number of tokens.
    fn windows(&self, tokens: BigInt) -> BigInt {
        (tokens + self.quota.window.grant - 1_u32) / self.quota.window.grant
    }

    /// Nanoseconds from `now` to the beginning of a window.
    fn until(&self, window: BigInt, now: u64) -> BigInt {
        window * self.quota.window.period - self.quota.window.phase - now
    }

    /// Nanoseconds since the beginning of the window that filled the bucket.
    fn full_for(&self, now: u64) -> Option<BigInt> {
        let filled = &self.window + self.windows(self.quota.tau - &self.left);
        let is_full = self.left(now) == self.quota.tau.into();
        is_full.then(|| (-self.until(filled, now)).max(BigInt::ZERO))
    }

    /// Nanoseconds until the bucket has `cost` tokens, if no burst stopped it.
    fn wait(&self, now: u64, cost: u64) -> BigInt {
        let present = Self::number(&self.quota, now).max(self.window.clone());
        self.until(present + self.windows(cost - self.left(now)), now)
    }

    /// Refused packets change nothing, because their clock may be wrong.
    fn admits(&mut self, now: u64, cost: u64) -> bool {
        let left = self.left(now) - cost;
        let fits = left >= BigInt::ZERO;
        if fits {
            self.left = left;
            self.window = Self::number(&self.quota, now).max(self.window.clone());
        }
        fits
    }
}

/// An event of a bucket.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time passes, in hundredths of a window.
    Later(u64),
    /// Whole windows pass.
    Windows(u64),
    Packet(u64),
    /// The charge of the last packet is refunded.
    Refund,
    /// A packet on a clock that is behind, by hundredths of a window.
    Behind(u64, u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let cost = || prop_oneof![3 => 1..8_u64, 1 => magnitude(TOKENS_MAX)];
    let event = prop_oneof![
        3 => (0..150_u64).prop_map(Event::Later),
        1 => (0..5_u64).prop_map(Event::Windows),
        6 => cost().prop_map(Event::Packet),
        1 => Just(Event::Refund),
        1 => (0..=100_u64, cost()).prop_map(|(behind, cost)| Event::Behind(behind, cost)),
    ];
    vec(event, 1..100)
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// The program admits exactly the model's packets, in any order of packets, refunds and clocks.
    #[test]
    fn window_decides_as_the_model(quota in quota(), start in moments(), events in events()) {
        let Window { period, .. } = quota.window;
        let (mut now, mut word, mut model) = (start, quota.full(start), Model::full(quota, start));
        let mut last = None;
        for event in events {
            let (at, cost) = match event {
                Event::Later(share) => {
                    now += period / 100 * share;
                    continue;
                }
                Event::Windows(windows) => {
                    now += period * windows;
                    continue;
                }
                Event::Refund => {
                    if let Some((cost, at)) = last.take() {
                        word = quota.refunded(word, cost, at, now);
                        if model.window == Model::number(&quota, at) {
                            model.left += cost;
                            prop_assert!(model.left <= quota.tau.into());
                        }
                    }
                    continue;
                }
                Event::Packet(cost) => (now, cost),
                Event::Behind(share, cost) => (now - period / 100 * share, cost),
            };
            prop_assert_eq!(BigInt::from(quota.left(word, at)), model.left(at));
            prop_assert_eq!(quota.full_for(word, at).map(BigInt::from), model.full_for(at));
            let fits = model.admits(at, cost);
            match quota.decide(word, at, cost) {
                Decision::Admit { tat } => {
                    prop_assert!(fits, "{} tokens were one too many", cost);
                    prop_assert!(is_time(tat));
                    (word, last) = (tat, Some((cost, at)));
                }
                Decision::Refuse { wait } => {
                    prop_assert!(!fits, "{} tokens could have passed", cost);
                    // Longer waits do not fit into ticks.
                    let exact = model.wait(at, cost);
                    prop_assert!(exact.bits() > 55 || exact == (wait >> TICK_SHIFT).into());
                    // A packet that is a window behind needs no correction.
                    prop_assert_eq!(quota.corrected(word, at), None);
                }
            }
        }
    }

    #[test]
    fn no_window_holds_more_than_the_burst(
        quota in quota(),
        start in moments(),
        left in magnitude(TOKENS_MAX),
        packets in vec((0..40_u64, 1..=TOKENS_MAX, 0..4_u8), 1..100),
    ) {
        let (mut now, mut word) = (start, quota.window.word(start, left.min(quota.tau)));
        let (mut window, mut admitted) = (Model::number(&quota, now), 0);
        for (gap, cost, kind) in packets {
            now += quota.window.period / 100 * gap;
            let present = Model::number(&quota, now);
            if present != window {
                (window, admitted) = (present, 0);
            }
            // Some packets take all that is left, most take a few tokens.
            let cost = if kind == 0 { cost } else { cost % 5 + 1 };
            if let Decision::Admit { tat } = quota.decide(word, now, cost) {
                word = tat;
                admitted += cost;
            }
            prop_assert!(admitted <= quota.tau);
        }
    }

    /// A clock that reads earlier, by a window or many, refills nothing; correcting the TAT does not either.
    #[test]
    fn earlier_clock_refills_nothing(
        quota in quota(),
        start in moments(),
        left in 0..=TOKENS_MAX,
        windows in 0..10_u64,
    ) {
        let left = left.min(quota.tau);
        let word = quota.window.word(start, left);
        let earlier = start - windows * quota.window.period;
        prop_assert_eq!(quota.left(word, earlier), left);
        let corrected = quota.corrected(word, earlier);
        prop_assert_eq!(corrected.is_some(), windows > 1);
        if let Some(corrected) = corrected {
            prop_assert_eq!(quota.left(corrected, earlier), left);
            prop_assert_eq!(quota.corrected(corrected, earlier), None, "a second correction changes nothing");
        }
        // Returning to the previous time refills nothing either, once something was charged meanwhile.
        if let (Decision::Admit { tat }, true) = (quota.decide(word, earlier, 1), windows <= 1) {
            prop_assert_eq!(quota.left(tat, start), left - 1);
        }
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn decision_by_clock_bounds_equals_the_exact_decision(
        quota in quota(),
        written in moments(),
        left in magnitude(TOKENS_MAX),
        cost in 0..20_u64,
        windows in 0..4_u64,
        (before, after) in (magnitude(1 << 34), magnitude(1 << 34)),
    ) {
        let word = quota.window.word(written, left.min(quota.tau));
        let now = written + windows * quota.window.period / 2;
        expect_exact_within(&quota, word, cost, (now - before, now, now + after))?;
    }
}

#[test]
fn window_bucket_continues_when_window_numbers_wrap() {
    let window = Window {
        period: 1_000,
        phase: 70,
        grant: 3,
    };
    let quota = Quota {
        tau: 10,
        cost: 1,
        window,
        ..Quota::default()
    };
    let begins = (1 << 31) * 1_000 - 70;
    let word = window.word(begins - 1, 1);
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
    let two_ahead = window.word(begins + 1_000, 5);
    let corrected = window.word(begins - 1, 5);
    assert_eq!(quota.corrected(two_ahead, begins - 1), Some(corrected));
}
