//! Merged packets cost what they would cost one by one, or more than any bucket has.

use limiter_common::arithmetic::{
    bucket::TAU_MAX,
    quota::{BY_BYTES, LENGTH_MAX, Quota},
    size,
};
use proptest::prelude::*;

/// The largest cost of a byte that user space compiles, which leaves room for [`LENGTH_MAX`].
const BYTE_COST_MAX: u64 = 1 << (63 - LENGTH_MAX.trailing_zeros());

fn more_than_any_bucket(cost: u64) -> bool {
    cost > TAU_MAX
}

proptest! {
    #[test]
    fn merged_packets_cost_as_many_packets(cost in 1_u64..=TAU_MAX, packets in 1_u32..200_000) {
        let quota = Quota { cost, ..Quota::default() };
        let merged = quota.cost_of(size::of(packets.into(), 1_500));
        let one_by_one = u128::from(cost) * u128::from(packets);
        prop_assert!(u128::from(merged) == one_by_one || more_than_any_bucket(merged) && one_by_one > u128::from(TAU_MAX));
    }

    #[test]
    fn merged_packets_cost_all_their_bytes(
        cost in 1..BYTE_COST_MAX,
        cost_shift in 0_u32..40,
        packets in 1_u32..200_000,
        length in 0_u32..600_000,
        headers in 0_u32..300,
    ) {
        let quota = Quota { cost, cost_shift, flags: BY_BYTES, ..Quota::default() };
        let bytes = u64::from(length) + u64::from(packets - 1) * u64::from(headers);
        let merged = quota.cost_of(size::of(packets.into(), bytes));
        let wanted = (u128::from(bytes) * u128::from(cost)).div_ceil(1 << cost_shift);
        prop_assert!(u128::from(merged) == wanted || more_than_any_bucket(merged) && bytes > LENGTH_MAX);
    }
}

#[test]
fn packets_beyond_16_bits_are_counted() {
    let merged = size::of(65_537, 100_000);
    assert_eq!(
        (size::packets(merged), size::bytes(merged)),
        (65_537, 100_000)
    );
    assert_eq!(
        size::bytes(size::of(u64::MAX, u64::MAX)),
        u64::from(u32::MAX)
    );
}
