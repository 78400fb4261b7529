//! Bounds of the time decide about a packet as every moment between them does.

use limiter_common::arithmetic::{
    bucket::{Decision, SKEW_MAX, ticks},
    quota::Quota,
};

const QUOTA: Quota = Quota {
    tau: ticks(12),
    cost: ticks(4),
    ..<Quota as limiter_common::pod::Pod>::ZEROS
};

/// A moment, in nanoseconds.
const EARLIEST: u64 = 1_000_000_000;

/// TATs around those at which a decision at [`EARLIEST`] changes.
fn words() -> impl Iterator<Item = u64> {
    let half_of_the_range = 1 << 63;
    let edges = [0, QUOTA.tau, QUOTA.tau + SKEW_MAX, half_of_the_range];
    edges.into_iter().flat_map(|edge| {
        let middle = ticks(EARLIEST).wrapping_add(edge);
        (0..40).map(move |number| middle.wrapping_add(ticks(number)).wrapping_sub(ticks(20)))
    })
}

#[test]
fn bounds_of_the_time_decide_as_every_moment_between_them() {
    let mut decided = [0; 3];
    for word in words() {
        for latest in EARLIEST..EARLIEST + 8 {
            let by_bounds = QUOTA.decide_within(word, EARLIEST, latest, QUOTA.cost);
            let decide = |now| {
                let is_plausible = QUOTA.corrected(word, now).is_none();
                (QUOTA.decide(word, now, QUOTA.cost), is_plausible)
            };
            let mut moments = (EARLIEST..=latest).map(decide);
            match by_bounds {
                Some(Decision::Admit { tat }) => {
                    decided[0] += 1;
                    assert!(moments.all(|(decision, _)| decision == Decision::Admit { tat }));
                }
                Some(Decision::Refuse { .. }) => {
                    decided[1] += 1;
                    assert!(moments.all(|(decision, is_plausible)| is_plausible
                        && matches!(decision, Decision::Refuse { .. })));
                }
                None => {
                    decided[2] += 1;
                    assert!(!moments.all(|(decision, is_plausible)| is_plausible
                        && matches!(decision, Decision::Refuse { .. })));
                }
            }
        }
    }
    assert!(decided.iter().all(|&times| times > 50), "{decided:?}");
}
