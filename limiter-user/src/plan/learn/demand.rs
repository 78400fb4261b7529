//! The buckets that a source needs to lose nothing, computed by the limiter's arithmetic while its packets arrive.

use std::sync::LazyLock;

use limiter_common::arithmetic::bucket::{self, Decision, TAU_MAX};
use limiter_config::{Limit, Rate, Unit};

/// The time in which a flood is measured, in nanoseconds. In this time, a burst and the bucket's refill pass.
const WINDOW: u64 = 10_000_000_000;

/// Origin of a source's times, in ticks: clear of the TATs with a special meaning.
const ORIGIN: u64 = 1 << 20;

/// Rates below one packet per second, in packets per minute.
const IN_A_MINUTE: [u64; 5] = [5, 10, 20, 30, 40];

/// Digits of the other rates. Each is at least a quarter more than the one before, and at most twice as much.
const LEADING: [u64; 7] = [10, 15, 20, 30, 40, 60, 80];

/// The rates that can be proposed, in rising order, each with the cost of a packet in ticks.
pub static RATES: LazyLock<Vec<(Rate, u64)>> = LazyLock::new(|| {
    let slow = IN_A_MINUTE.map(|amount| Rate {
        amount,
        period_ns: 60_000_000_000,
        unit: Unit::Packets,
    });
    let decades = (0..5).map(|decade| 10_u64.pow(decade));
    let fast = decades.flat_map(|decade| LEADING.map(|leading| leading * decade));
    let fast = [1, 2, 3, 4, 6, 8].into_iter().chain(fast);
    let fast = fast.chain([1_000_000]).map(Rate::packets_per_second);
    let all = slow.into_iter().chain(fast);
    all.map(|rate| (rate, cost(rate))).collect()
});

/// Cost of a packet at this rate, in ticks. A limit of any burst has this cost.
fn cost(rate: Rate) -> u64 {
    let quota = Limit::new("learn", rate).quota(1);
    quota.map_or(u64::MAX, |quota| quota.in_kernel.cost)
}

/// Packets that a source at full speed gets through in the time of a flood, with this burst and the rate of this index.
pub fn through(index: usize, burst: u64) -> u64 {
    burst.saturating_add(bucket::ticks(WINDOW) / RATES[index].1)
}

/// The demand of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    first: u64,
    /// Number of packets.
    pub packets: u64,
    /// A bucket of unlimited depth for each rate.
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    tat: u64,
    /// The most that was ever spent, in ticks.
    deepest: u64,
}

impl Default for Demand {
    /// No packets.
    fn default() -> Self {
        let full = Bucket {
            tat: ORIGIN,
            deepest: 0,
        };
        Self {
            first: 0,
            packets: 0,
            buckets: vec![full; RATES.len()],
        }
    }
}

impl Demand {
    /// Adds packets that arrived at `time` (nanoseconds).
    pub fn add(&mut self, time: u64, packets: u64) {
        if self.packets == 0 {
            self.first = time;
        }
        self.packets += packets;
        // CPUs may report packets slightly out of order.
        let now = ORIGIN.wrapping_add(bucket::ticks(time.saturating_sub(self.first)));
        for (bucket, (_, cost)) in self.buckets.iter_mut().zip(RATES.iter()) {
            let cost = cost.saturating_mul(packets).min(TAU_MAX);
            match bucket::decide(bucket.tat, now, cost, TAU_MAX) {
                Decision::Admit { tat } => bucket.tat = tat,
                Decision::Refuse { .. } => bucket.deepest = u64::MAX,
            }
            let spent = bucket::spent(bucket.tat, now, TAU_MAX);
            bucket.deepest = bucket.deepest.max(spent);
        }
    }

    /// The smallest burst, in packets, with which a bucket that is full at first refuses nothing, at the rate of this
    /// index. None if the source sends faster than the rate in all of `duration` (nanoseconds): then no burst is enough
    /// in the long run.
    pub fn burst(&self, index: usize, duration: u64) -> Option<u64> {
        let cost = RATES[index].1;
        let is_sustained = self.packets.checked_mul(cost)? <= duration.checked_mul(256)?;
        let deepest = self.buckets[index].deepest;
        (is_sustained && deepest != u64::MAX).then(|| deepest.div_ceil(cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposed_rates_rise_in_bounded_steps() {
        let rates: Vec<f64> = RATES.iter().map(|(rate, _)| rate.per_second()).collect();
        for pair in rates.windows(2) {
            let step = pair[1] / pair[0];
            assert!((1.249..2.001).contains(&step), "{pair:?}");
        }
    }
}
