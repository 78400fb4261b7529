//! The stretched cost of a packet is exact, and a scale ends at its time.

use limiter_common::arithmetic::scale::{COST_MAX, ONE, STRETCH_MAX, cost, stretch, word};
use limiter_config::adaptive::stretch_of;
use num_bigint::BigInt;
use proptest::prelude::*;

use crate::exact::{cases, draw::magnitude};

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn stretched_cost_is_rounded_up(
        ticks in magnitude(COST_MAX - 1),
        by in ONE + 1..=STRETCH_MAX,
    ) {
        let exact = BigInt::from(ticks) * by;
        let stretched = BigInt::from(cost(ticks, by)) * ONE;
        prop_assert!(stretched >= exact);
        prop_assert!(stretched < exact + ONE);
        prop_assert_eq!(cost(ticks, ONE), ticks);
    }

    #[test]
    fn stretch_is_in_force_until_its_end(
        by in ONE + 1..=STRETCH_MAX,
        until in 0..1_u64 << 59,
        unit in 1..=1_u64 << 20,
    ) {
        let word = word(by, until);
        prop_assert_eq!(stretch(word, || until), by);
        prop_assert_eq!(stretch(word, || 0), by);
        prop_assert_eq!(stretch(word, || until + (1 << 20) + unit), ONE);
    }

    /// Words that nothing has written, or that a fault has destroyed.
    #[test]
    fn any_word_gives_a_stretch_within_the_bounds(word: u64, now: u64) {
        prop_assert!((ONE..=STRETCH_MAX).contains(&stretch(word, || now)));
        prop_assert_eq!(stretch(0, || now), ONE);
    }

    /// A part of the rate is never exceeded.
    #[test]
    fn stretch_of_a_scale_is_rounded_up(scale in ONE.div_ceil(100)..=ONE) {
        let by = u64::from(stretch_of(scale));
        prop_assert!(by * u64::from(scale) >= u64::from(ONE) * u64::from(ONE));
        prop_assert!((by - 1) * u64::from(scale) < u64::from(ONE) * u64::from(ONE));
    }
}
