//! A change of a limit's quota keeps spent tokens spent, within a bounded rounding error.

use crate::exact::{
    Exact, Limit, Pace, a_millionth, cases,
    draw::{alike, bit_rates, limits, limits_of, magnitude, packet_rates},
    loss, part,
};
use limiter_common::arithmetic::{
    bucket::{DEBT_MAX, FREE, REST, is_time, spent, ticks, time},
    quota::{Quota, SHARED},
    rescale::Rescale,
};
use num_bigint::BigInt;
use proptest::prelude::*;

/// Two limits that both count packets or both bytes, a time in nanoseconds, and the ticks spent of the first.
fn changes() -> impl Strategy<Value = (Limit, Limit, u64, u64)> {
    (alike(2..3), any::<u64>(), any::<u32>(), 0..4_u8).prop_map(|(limits, since, share, kind)| {
        let tau = limits[0].quota.tau;
        let spent = match kind {
            0 => tau,
            1 => u64::from(share).min(tau),
            _ => part(tau, share),
        };
        (limits[0], limits[1], since, spent)
    })
}

/// Ticks spent of the new bucket if `before` ticks of the old one were spent.
fn carried(old: &Limit, new: &Limit, since: u64, before: u64) -> u64 {
    let start = ticks(since);
    let word = old.rescale(new, since).apply(start.wrapping_add(before));
    spent(word, start, new.quota.tau)
}

/// Ticks spent after `change` of a bucket with `before` ticks spent, even if the TAT is a mark.
fn carried_by(change: &Rescale, before: u64) -> u64 {
    let start = ticks(change.since);
    change.apply(start.wrapping_add(before)).wrapping_sub(start)
}

/// Two exact buckets with equal grains, on the program's old and new quota.
fn scales(old: &Limit, new: &Limit) -> (Exact, Exact) {
    let paces = [Pace::of_quota(&old.quota), Pace::of_quota(&new.quota)];
    let exact = |pace: &Pace, limit: &Limit| Exact::full_among(pace, limit.tokens, &paces);
    (exact(&paces[0], old), exact(&paces[1], new))
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn change_gives_no_tokens_away((old, new, since, before) in changes()) {
        let (old_exact, new_exact) = scales(&old, &new);
        let stays = (&old_exact.tick * before).min(&new_exact.tick * new.quota.tau);
        prop_assert!(&new_exact.tick * carried(&old, &new, since, before) >= stays);
    }

    #[test]
    fn change_costs_at_most_a_millionth_of_the_burst((old, new, since, before) in changes()) {
        let (old_exact, new_exact) = scales(&old, &new);
        let stays = &old_exact.tick * before;
        let after = &new_exact.tick * carried(&old, &new, since, before);
        prop_assert!(after <= stays + loss(&old_exact, &new_exact));
    }

    /// Between packets and bytes, the spent share of the burst stays, except for a small loss.
    #[test]
    fn spent_share_stays_between_packets_and_bytes(
        packets in limits_of(packet_rates()),
        bytes in limits_of(bit_rates()),
        to_bytes: bool,
        since: u64,
        share: u32,
    ) {
        let (old, new) = if to_bytes { (packets, bytes) } else { (bytes, packets) };
        let before = part(old.quota.tau, share);
        let (old_tau, new_tau) = (BigInt::from(old.quota.tau), BigInt::from(new.quota.tau));
        let after = carried(&old, &new, since, before) * &old_tau;
        prop_assert!(after >= before * &new_tau);
        prop_assert!(after <= before * &new_tau + (a_millionth(&new_tau) + 2) * &old_tau);
    }

    /// This holds even if its TAT is more than a year old.
    #[test]
    fn full_bucket_stays_full(
        old in limits(),
        new in limits(),
        since: u64,
        ago in prop_oneof![4 => magnitude(1 << 63), 1 => Just(0)],
    ) {
        let (change, start) = (old.rescale(&new, since), ticks(since));
        prop_assert_eq!(change.apply(start.wrapping_sub(ago)), time(start));
    }

    #[test]
    fn empty_bucket_stays_empty_unless_the_burst_grows(limits in alike(2..3), since: u64) {
        let (old, new) =
            if limits[0].tokens < limits[1].tokens { (1, 0) } else { (0, 1) };
        let (old, new) = (limits[old], limits[new]);
        prop_assert_eq!(carried(&old, &new, since, old.quota.tau), new.quota.tau);
    }

    /// Any TAT becomes a time no further ahead than the new bucket's depth, from the change or from the later packet
    /// that the TAT proves. No number of chunks overflows.
    #[test]
    fn any_tat_is_converted_into_the_new_bucket(
        old in limits(),
        new in limits(),
        since: u64,
        word in prop_oneof![2 => any::<u64>().prop_map(Ok), 1 => (0..4_u64).prop_map(Err)],
    ) {
        let start = ticks(since);
        // Any TAT, or one within a few ticks of an empty bucket's.
        let word = word.unwrap_or_else(|few| {
            start.wrapping_add(old.quota.tau).wrapping_add(few).wrapping_sub(1)
        });
        let change = old.rescale(&new, since);
        let Rescale { chunk_from, chunk_to, chunk_shift, chunks_most, .. } = change;
        prop_assert!(chunk_from > 0 && chunk_to > 0 && chunk_shift < 63);
        let largest = chunks_most.checked_mul(chunk_to);
        prop_assert!(largest.is_some_and(|largest| largest < (1 << 63)));
        let after = change.apply(word);
        prop_assert!(is_time(after));
        let ahead = word.wrapping_sub(start);
        let late = if ahead < 1 << 63 { ahead.saturating_sub(old.quota.tau) } else { 0 };
        let from = start.wrapping_add(late);
        prop_assert!(after.wrapping_sub(from) <= new.quota.tau + REST + 1);
        if late > 0 {
            // The result of a change at that moment, which need not be a whole nanosecond.
            let empty = carried_by(&old.rescale(&new, 1 << 40), old.quota.tau);
            prop_assert_eq!(after, time(from.wrapping_add(empty)));
        }
    }

    /// A shared bucket's debt takes as long as before on the new quota; then the bucket is as empty as any other. A
    /// debt gives no tokens.
    #[test]
    fn debt_is_kept_under_the_new_quota(
        limits in alike(2..3),
        since: u64,
        debt in magnitude(DEBT_MAX),
    ) {
        let (old, new) = (limits[0], limits[1]);
        let (change, start) = (old.rescale(&new, since), ticks(since));
        let after = change.apply(start.wrapping_add(old.quota.tau + debt));
        let empty = carried_by(&old.rescale(&new, 1 << 40), old.quota.tau);
        prop_assert_eq!(after, time(start.wrapping_add(debt + empty)));
        let shared = Quota { flags: SHARED, ..new.quota };
        prop_assert_eq!(shared.corrected(after, since), None, "corrected");
        // A bucket without a fleet never has more tokens than an empty bucket of the old quota keeps.
        let left = new.quota.left(new.quota.corrected(after, since).unwrap_or(after), since);
        prop_assert!(left <= new.quota.tau - empty.min(new.quota.tau));
    }

    #[test]
    fn converted_tat_is_never_a_reserved_mark(
        (old, new, _, before) in changes(),
        end in FREE..=REST,
    ) {
        // Changes come at whole nanoseconds: only a TAT that differs from the mark by whole nanoseconds can become
        // one. Of the buckets that have spent as much or a little less, one often does.
        let probe = old.rescale(&new, 1 << 40);
        let mut candidates = (0..1_024)
            .map_while(|step| before.checked_sub(probe.chunk_from.checked_mul(step)?))
            .map(|before| (before, end.wrapping_sub(carried_by(&probe, before))));
        if let Some((before, start)) = candidates.find(|(_, start)| start % ticks(1) == 0) {
            let since = start / ticks(1);
            let word = old.rescale(&new, since).apply(start.wrapping_add(before));
            prop_assert_eq!(word, REST + 1);
        }
        // A packet after the change, which empties the bucket, comes at any tick.
        let tau = old.quota.tau;
        let from = end.wrapping_sub(carried_by(&probe, tau));
        let since = (from / ticks(1)).wrapping_sub(1);
        let word = old.rescale(&new, since).apply(from.wrapping_add(tau));
        prop_assert_eq!(word, REST + 1);
    }
}
