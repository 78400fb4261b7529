//! Rate and burst become ticks with the promised precision: cost of a token, and depth of a bucket.

use crate::exact::{
    Limit, Pace, cases, configured,
    draw::{bit_rates, limits, limits_of, magnitude, packet_rates, rates},
};
use limiter_common::arithmetic::{
    bucket::{TAU_MAX, TICK_SHIFT},
    quota::{LENGTH_MAX, Quota},
};
use limiter_config::{Rate, Unit};
use num_bigint::BigInt;
use proptest::prelude::*;

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![4 => magnitude(LENGTH_MAX), 1 => Just(1), 1 => Just(60), 1 => Just(LENGTH_MAX)]
}

/// True if `ticks` are at least the exact cost of `tokens`.
fn covers(ticks: u64, tokens: u64, pace: &Pace) -> bool {
    ticks * &pace.tokens >= &pace.ticks * tokens
}

/// Relative excess of a packet's cost over the exact cost, in parts of 2^-64, rounded up.
fn excess(limit: &Limit, length: u64) -> u128 {
    let pace = limit.pace();
    let exact = &pace.ticks * limit.tokens_of(length);
    let more = limit.quota.cost_of(length) * &pace.tokens - &exact;
    let share: BigInt = ((more << 64) + &exact - 1_u32) / exact;
    u128::try_from(share).unwrap_or_else(|_| panic!("{limit:?}: below the exact cost"))
}

/// Parts of 2^-64 in `numerator / denominator`, rounded down.
fn share(numerator: u128, denominator: u128) -> u128 {
    (numerator << 64) / denominator
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn packet_cost_is_rounded_up_by_under_a_tick(
        limit in limits_of(packet_rates()),
        length in lengths(),
    ) {
        let (cost, pace) = (limit.quota.cost_of(length), limit.pace());
        prop_assert!(covers(cost, 1, &pace));
        prop_assert!(!covers(cost - 1, 1, &pace));
        prop_assert_eq!(u128::from(limit.quota.tau), u128::from(cost) * u128::from(limit.tokens));
    }

    /// Bytes cost at most a tick and 2^-41 of the exact cost more, and no length makes the cost overflow.
    #[test]
    fn byte_cost_exceeds_the_exact_cost_by_at_most_a_tick_and_2_to_minus_41(
        limit in limits_of(bit_rates()),
        length in lengths(),
    ) {
        let Quota { cost, cost_shift, .. } = limit.quota;
        prop_assert!(cost >= 1 << 41, "bits of precision");
        let largest = cost.checked_mul(LENGTH_MAX).and_then(|c| c.checked_add(1 << cost_shift));
        prop_assert!(largest.is_some());
        let (charged, pace) = (limit.quota.cost_of(length), limit.pace());
        prop_assert!(covers(charged, length, &pace));
        let exact = &pace.ticks * length;
        let more_than_a_tick: BigInt = (charged - 1) * &pace.tokens - &exact;
        prop_assert!(more_than_a_tick << 41 < exact);
    }

    /// A bucket is as deep as its burst, rounded up to the next tick, and no deeper than allowed.
    #[test]
    fn bucket_depth_is_the_burst_rounded_up_to_a_tick(limit in limits()) {
        let Quota { tau, cost, cost_shift, .. } = limit.quota;
        prop_assert!(tau <= TAU_MAX);
        prop_assert!(covers(tau, limit.tokens, &limit.pace()));
        let depth = BigInt::from(cost) * limit.tokens;
        prop_assert!(BigInt::from(tau) << cost_shift >= depth);
        prop_assert!(BigInt::from(tau - 1) << cost_shift < depth);
    }

    #[test]
    fn only_too_deep_or_too_small_buckets_are_refused(
        rate in rates(),
        tokens in magnitude(u64::MAX >> 1),
        frame_max in magnitude(LENGTH_MAX),
    ) {
        let accepted = configured(&rate, tokens, frame_max).is_ok();
        let pace = Pace::of_rate(&rate);
        let depth = &pace.ticks * tokens;
        let most = TAU_MAX * &pace.tokens;
        let fits = rate.unit == Unit::Packets || tokens >= frame_max;
        if accepted {
            prop_assert!(depth <= most && fits);
        } else if fits {
            let rounding = match rate.unit {
                Unit::Packets => &pace.tokens * tokens,
                Unit::Bytes => (&depth >> 41) + &pace.tokens,
            };
            prop_assert!(depth + rounding > most);
        }
    }

    #[test]
    fn rate_error_up_to_one_million_packets_per_second_is_below_1e_5(
        rate in packet_rates().prop_filter("to 1M/s", |rate| rate.per_second() <= 1e6),
    ) {
        let limit = Limit::of(&rate.to_string(), 1);
        prop_assert!(excess(&limit, 60) < share(1, 100_000));
    }

    /// Up to 400 Gbit/s, the error is below one tick in the 307.2 ticks that 60 bytes cost then, and falls with the
    /// length.
    #[test]
    fn rate_error_in_bits_is_at_most_one_tick_in_307(
        rate in bit_rates().prop_filter("to 400gbit", |rate| rate.amount <= 400_000_000_000),
        length in 60..=LENGTH_MAX,
    ) {
        let limit = Limit::of(&rate.to_string(), 1);
        let most = share(600, 3_072 * u128::from(length)) + share(1, 1 << 41);
        prop_assert!(excess(&limit, length) <= most + 1);
    }
}

/// The three promised errors, where they are largest.
#[test]
fn largest_rate_errors_are_within_the_documented_bounds() {
    for (rate, length, most) in [
        ("1M/s", 60, share(1, 100_000)),
        ("999999/s", 60, share(1, 100_000)),
        ("148800k/s", 60, share(5, 10_000)),
        ("148809523/s", 60, share(5, 10_000)),
        ("148809524/s", 60, share(5, 10_000)),
        ("400gbit", 60, share(3, 1_000)),
    ] {
        let excess = excess(&Limit::of(rate, 1), length);
        assert!(
            excess < most,
            "{rate}: {excess} of 2^64, and at most {most}"
        );
    }
}

#[test]
fn rates_out_of_range_are_refused() {
    let rate = |text: &str| text.parse::<Rate>();
    assert!(rate("1G/s").is_ok() && rate("1000000001/s").is_err());
    assert!(rate("1tbit").is_ok() && rate("1000000000001bit").is_err());
    assert!(rate("1/208d").is_ok() && rate("1/209d").is_err());
    assert_eq!(Limit::of("1G/s", 1).quota.cost, 1 << TICK_SHIFT);
}
