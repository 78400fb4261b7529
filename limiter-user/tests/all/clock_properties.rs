//! Clocks that step back, old TATs and invalid TATs give no tokens away and lock no source out.

use crate::exact::{
    Pair, Program, cases,
    draw::{Gap, IDLE_MAX, buckets, gaps, limits, magnitude, moments},
    expect_exact_within,
};
use limiter_common::arithmetic::{
    bucket::{
        BACK_MAX, DEBT_MAX, Decision, FREE, REST, SKEW_MAX, TAU_MAX, corrected, decide, full_for,
        is_time, spent, ticks, time,
    },
    quota::{Quota, SHARED},
};
use proptest::{collection::vec, option, prelude::*};

proptest! {
    #![proptest_config(cases(4_000))]

    /// A clock that reads earlier refills nothing, and takes no more than the size of its step.
    #[test]
    fn earlier_clock_refills_nothing(
        (tau, now, _, tat) in buckets(),
        back in magnitude(TAU_MAX - 1),
    ) {
        let (before, after) = (spent(tat, now, tau), spent(tat, now.wrapping_sub(back), tau));
        prop_assert_eq!(before, tat.wrapping_sub(now), "the drawn bucket");
        prop_assert_eq!(after, before.saturating_add(back).min(tau));
    }

    /// Any TAT is a bucket between full and empty, and gives a decision.
    #[test]
    fn any_tat_is_a_valid_bucket(
        tat: u64,
        now: u64,
        cost in magnitude(TAU_MAX),
        tau in magnitude(TAU_MAX),
    ) {
        prop_assert!(spent(tat, now, tau) <= tau);
        prop_assert_eq!(full_for(tat, now).is_some(), spent(tat, now, tau) == 0);
        match decide(tat, now, cost, tau) {
            Decision::Admit { tat: charged } => {
                prop_assert!(cost <= tau && is_time(charged));
                prop_assert!(full_for(charged, now).is_none(), "the admitted packet is charged");
            }
            Decision::Refuse { wait } => {
                prop_assert!(wait > 0);
                let then = decide(tat, now.wrapping_add(wait), cost, tau);
                prop_assert_eq!(matches!(then, Decision::Admit { .. }), cost <= tau);
            }
        }
    }

    /// A TAT that no packet can have written, on any CPU or (in a shared bucket) any host, becomes that of an empty
    /// bucket. If no clock can be set back that far, the source was idle, and its bucket is full. Other TATs stay.
    #[test]
    fn implausible_tat_is_corrected_to_an_empty_or_full_bucket(
        now: u64,
        tau in magnitude(TAU_MAX),
        shared: bool,
        (beyond, near, idle) in (magnitude(TAU_MAX), option::of(0..5_u64), any::<bool>()),
    ) {
        let (flags, most) = if shared { (SHARED, DEBT_MAX) } else { (0, SKEW_MAX) };
        let quota = Quota { tau, flags, ..Quota::default() };
        let edge = if idle { most + BACK_MAX } else { most };
        let beyond = near.map_or(beyond, |near| edge - 2 + near);
        let (start, corrected) = (ticks(now), |word| quota.corrected(word, now));
        let word = corrected(start.wrapping_add(tau).wrapping_add(beyond));
        prop_assert_eq!(word.is_some(), beyond > most && tau + beyond < 1 << 63);
        if let Some(word) = word {
            let left = if beyond > most + BACK_MAX { tau } else { 0 };
            prop_assert_eq!(word, time(start.wrapping_add(tau - left)));
            prop_assert_eq!(corrected(word), None, "a second correction changes nothing");
        }
        prop_assert_eq!(corrected(start.wrapping_sub(beyond)), None, "full buckets");
    }

    #[test]
    fn tat_up_to_a_year_old_is_a_full_bucket(
        now: u64,
        ago in prop_oneof![4 => magnitude(1 << 63), 1 => Just(0), 1 => Just(1 << 63)],
        tau in magnitude(TAU_MAX),
    ) {
        let tat = now.wrapping_sub(ago);
        prop_assert_eq!(full_for(tat, now), (ago < 1 << 63).then_some(ago));
        prop_assert_eq!(spent(tat, now, tau), 0);
        let charged = Decision::Admit { tat: time(now.wrapping_add(tau)) };
        prop_assert_eq!(decide(tat, now, tau, tau), charged);
        prop_assert_eq!(decide(tat, now, tau + 1, tau), Decision::Refuse { wait: 1 });
    }

    /// No decision writes a mark instead of a time. Stepping over the marks costs the source at most four ticks, and
    /// never gives it any.
    #[test]
    fn decision_never_writes_a_reserved_mark(
        end in prop_oneof![Just(u64::MAX), FREE..=REST + 1],
        (tau, _, cost, _) in buckets(),
        before in any::<u64>(),
    ) {
        let before = before % (tau - cost + 1);
        let now = end.wrapping_sub(before + cost);
        let decision = decide(now.wrapping_add(before), now, cost, tau);
        let Decision::Admit { tat } = decision else {
            return Err(TestCaseError::fail(format!("{decision:?}")));
        };
        prop_assert!(!(FREE..=REST).contains(&tat) && is_time(tat));
        let late = if end == u64::MAX { 0 } else { REST + 1 - end };
        prop_assert_eq!(tat.wrapping_sub(end), late);
        // A correction does not either, where an empty bucket's TAT would be a mark.
        let now = end.wrapping_sub(tau);
        let beyond = end.wrapping_add(SKEW_MAX + 1);
        prop_assert_eq!(corrected(beyond, now, tau, SKEW_MAX), Some(tat));
    }
}

/// Less than [`SKEW_MAX`], in nanoseconds.
const SKEW: u64 = SKEW_MAX / ticks(1) - 1;

/// Packets on a clock that is behind the latest one or was set back, by nanoseconds.
fn steps_back(most: u64) -> impl Strategy<Value = Vec<(Gap, u64, u64)>> {
    let back = prop_oneof![2 => Just(0), 1 => 0..=most, 1 => magnitude(most)];
    vec((gaps(), back, 1..=1_514_u64), 1..100)
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn differing_cpu_clocks_admit_no_more_than_the_latest_clock(
        limit in limits(),
        start in moments(),
        packets in steps_back(SKEW),
    ) {
        let mut pair = Pair::full(limit, start + IDLE_MAX);
        for (gap, behind, length) in packets {
            let length = limit.passable(length);
            // The clock is behind the reading of another packet.
            if behind == 0 {
                pair.wait(gap, length, IDLE_MAX);
            }
            pair.admits_behind(behind, length);
            prop_assert!(!pair.is_overdrawn(), "one too many, {} ns behind", behind);
        }
    }

    /// A clock that is set back gives no tokens: no more is admitted than its advance allows. Linux never sets this clock
    /// back. A step of more than [`BACK_MAX`] cannot be told from years without packets.
    #[test]
    fn clock_set_back_gives_no_tokens(
        limit in limits(),
        start in moments(),
        packets in steps_back(BACK_MAX / ticks(1)),
    ) {
        let mut pair = Pair::full(limit, start + (1 << 61));
        for (gap, back, length) in packets {
            let length = limit.passable(length);
            pair.wait(gap, length, IDLE_MAX);
            pair.admits(length);
            pair.now -= back;
            pair.admits(length);
            prop_assert!(!pair.is_overdrawn(), "one too many");
        }
    }

    /// This holds for any TAT, after a step back of the clock, and after a year of silence.
    #[test]
    fn refused_source_is_admitted_after_one_full_refill(
        limit in limits(),
        start in moments(),
        word in prop_oneof![any::<u64>().prop_map(Some), Just(None)],
        beyond in 0..2 * SKEW_MAX,
    ) {
        let near = || ticks(start).wrapping_add(limit.quota.tau).wrapping_add(beyond);
        let mut program = Program { quota: limit.quota, tat: word.unwrap_or_else(near) };
        let length = limit.passable(1_514);
        if !program.admits(start, length) {
            // The largest difference of two clocks comes on top, and four ticks that step over the marks.
            let refilled = start + (limit.quota.tau + SKEW_MAX).div_ceil(ticks(1)) + 1;
            prop_assert!(program.admits(refilled, length), "refused after a whole burst");
        }
    }
}

/// A moment, the ends of the time around it, and a share of that time.
fn around() -> impl Strategy<Value = (u64, u64, u64)> {
    let far = || prop_oneof![0..3_u64, magnitude(1 << 34)];
    (moments(), far(), far())
        .prop_map(|(now, before, after)| (now, now.saturating_sub(before), now + after))
}

proptest! {
    #![proptest_config(cases(8_000))]

    #[test]
    fn decision_by_clock_bounds_equals_the_exact_decision(
        (tau, now_in_ticks, cost, word) in buckets(),
        (now, earliest, latest) in around(),
        elsewhere in prop_oneof![3 => Just(0), 1 => magnitude(TAU_MAX)],
    ) {
        let quota = Quota { tau, cost, ..Quota::default() };
        // The bucket as drawn, at some moment within the bounds or further off.
        let word = time(word.wrapping_sub(now_in_ticks).wrapping_add(ticks(now)).wrapping_add(elsewhere));
        expect_exact_within(&quota, word, cost, (earliest, now, latest))?;
    }
}
