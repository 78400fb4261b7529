//! Chooses rate and burst: the tightest under which nearly all usual sources lose nothing.

use super::{human, need, trace::Trace};
use crate::config::{Burst, Limit, Rate};

/// The time in which a flood is measured, in nanoseconds. In this time, a burst and the bucket's refill pass.
pub const WINDOW: u64 = 10_000_000_000;

/// The minimum number of sources to tell usual sources from unusual ones.
pub const SOURCES_MIN: usize = 5;

/// The minimum burst, in packets. People often come several times at once, and five packets do not help a flood.
const BURST_MIN: u64 = 5;

/// Conditions for sources far above the rest: factor, part. Each sends at least the factor times as much as the next
/// smaller source. They are at most one in `part` of all sources, but one source is always allowed.
const FAR_ABOVE: [(u64, usize); 2] = [(10, 20), (50, 4)];

/// Finds the sources that are far above the rest. `busiest`: packets of each source in its busiest [`WINDOW`], in any
/// order. Returns the lowest number of a source far above the rest; none if there is none.
pub fn far_above(busiest: &[u64]) -> Option<u64> {
    if busiest.len() < SOURCES_MIN {
        return None;
    }
    let mut falling = busiest.to_vec();
    falling.sort_unstable_by_key(|packets| std::cmp::Reverse(*packets));
    let gap = |above: &usize| {
        FAR_ABOVE.iter().any(|(times, part)| {
            *above <= (falling.len() / part).max(1)
                && falling[above - 1] >= times.saturating_mul(falling[*above].max(1))
        })
    };
    let most = falling.len() - 1;
    let above = (1..=most).rev().find(gap)?;
    Some(falling[above - 1])
}

/// The chosen rate and burst, and the minimum they are based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The rate.
    pub rate: Rate,
    /// The burst.
    pub burst: Burst,
    /// The minimum rate.
    pub needed_rate: Rate,
    /// The minimum burst with the minimum rate, in packets.
    pub needed_burst: u64,
}

/// Chooses rate and burst for `traces`. 99.9 % of them lose nothing if the same traffic repeats every `period`
/// nanoseconds. None if there are no traces, or no rate is enough.
pub fn choose(traces: &[&Trace], period: u64) -> Option<Choice> {
    let rates = human::rates();
    let mut best: Option<(f64, usize, u64)> = None;
    for (index, rate) in rates.iter().enumerate() {
        let refilled = rate.per_second() * seconds(WINDOW);
        if best.is_some_and(|(least, ..)| refilled >= least) {
            break;
        }
        let Some(burst) = of_all(traces, cost(rate), period) else {
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "compared, not computed with")]
        let through = burst as f64 + refilled;
        if best.is_none_or(|(least, ..)| through < least) {
            best = Some((through, index, burst));
        }
    }
    let (_, index, needed_burst) = best?;
    let needed_rate = rates[index];
    let burst = needed_burst.saturating_add(needed_burst / 2);
    Some(Choice {
        rate: with_margin(&rates, needed_rate),
        burst: human::burst(human::up(burst.max(BURST_MIN))),
        needed_rate,
        needed_burst,
    })
}

/// The first rate that is at least a quarter higher.
fn with_margin(rates: &[Rate], rate: Rate) -> Rate {
    let least = rate.per_second() * 1.25;
    let more = rates.iter().find(|one| one.per_second() >= least);
    *more.unwrap_or(&rate)
}

/// The burst with which 99.9 % of the traces lose nothing, in packets.
fn of_all(traces: &[&Trace], cost: u64, period: u64) -> Option<u64> {
    let mut needs: Vec<u64> = traces
        .iter()
        .map(|trace| need::burst(trace, cost, period).unwrap_or(u64::MAX))
        .collect();
    needs.sort_unstable();
    let need = *needs.get(kept(needs.len()).checked_sub(1)?)?;
    (need != u64::MAX).then_some(need)
}

/// The number of sources that should lose nothing: 99.9 %, rounded up.
pub fn kept(sources: usize) -> usize {
    sources - sources / 1_000
}

/// Cost of a packet at this rate, in ticks, by the limiter's arithmetic.
pub fn cost(rate: &Rate) -> u64 {
    let limit = Limit {
        burst: Some(human::burst(1)),
        ..Limit::new("learn", *rate)
    };
    limit
        .quota(1)
        .map_or(u64::MAX, |quota| quota.in_kernel.cost)
}

/// Converts nanoseconds to seconds.
#[expect(clippy::cast_precision_loss, reason = "shown, not computed with")]
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_above_finds_outliers_only_if_they_stand_apart() {
        let usual = [4, 5, 6, 7, 8, 9, 10, 11, 12, 30];
        assert_eq!(far_above(&usual), None);
        let with = |more: &[u64]| far_above(&[&usual[..], more].concat());
        assert_eq!(with(&[300]), Some(300));
        assert_eq!(with(&[299]), None, "less than ten times the next one");
        assert_eq!(with(&[5_000, 1_500]), Some(1_500), "two, far enough");
        assert_eq!(with(&[1_400, 1_400]), None, "two, not so far");
        assert_eq!(far_above(&[1, 1, 1, 1_000]), None, "too few to say");
        assert_eq!(far_above(&[0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn kept_share_of_sources_is_rounded_up() {
        assert_eq!(
            [0, 1, 999, 1_000, 1_001, 2_000].map(kept),
            [0, 1, 999, 999, 1_000, 1_998]
        );
    }

    #[test]
    fn a_steady_source_needs_its_rate_and_little_burst() {
        let mut trace = Trace::new(1_000);
        (0..40).for_each(|n| trace.add(n * 250_000_000, 1, 0));
        let choice = choose(&[&trace], 10_000_000_000).unwrap();
        assert_eq!(
            (choice.needed_rate.to_string(), choice.needed_burst),
            ("4/s".to_owned(), 1)
        );
        assert_eq!(
            (choice.rate.to_string(), choice.burst.tokens),
            ("5/s".to_owned(), 5)
        );
    }

    #[test]
    fn bursty_source_needs_burst_rather_than_rate() {
        let mut trace = Trace::new(1_000);
        (0..6).for_each(|n| trace.add(n * 100_000_000_000, 50, 0));
        let choice = choose(&[&trace], 600_000_000_000).unwrap();
        assert_eq!(
            (choice.needed_rate.to_string(), choice.needed_burst),
            ("30/m".to_owned(), 50)
        );
    }
}
