//! The bursts that one source needs for several services together.

use super::demand::{Demand, RATES};

/// For each rate that can be proposed, the burst with which a source loses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Number of packets.
    pub packets: u64,
    /// By the index of the rate; `u64::MAX`: no burst is enough in the long run.
    by_rate: Vec<u64>,
}

impl Bursts {
    /// The bursts for one service, exactly.
    pub fn new(demand: &Demand, duration: u64) -> Self {
        let bursts = (0..RATES.len()).map(|index| demand.burst(index, duration));
        Self {
            packets: demand.packets,
            by_rate: bursts.map(|burst| burst.unwrap_or(u64::MAX)).collect(),
        }
    }

    /// The burst at the rate of this index, in packets. None if no burst is enough in the long run.
    pub fn burst(&self, index: usize) -> Option<u64> {
        Some(self.by_rate[index]).filter(|burst| *burst != u64::MAX)
    }

    /// Bursts that suffice for the packets of both under one limit: two buckets of two rates together hold as much as one
    /// bucket of the sum. A service may also get no rate at all, and a burst for all its packets.
    #[must_use]
    pub fn with(&self, other: &Self, duration: u64) -> Self {
        let packets = self.packets + other.packets;
        let by_rate = (0..RATES.len()).map(|index| {
            let cost = RATES[index].1;
            let is_sustained = u128::from(packets) * u128::from(cost) <= u128::from(duration) * 256;
            if !is_sustained {
                return u64::MAX;
            }
            let alone = [
                self.packets.saturating_add(other.by_rate[index]),
                self.by_rate[index].saturating_add(other.packets),
                packets,
            ];
            let both = (0..index).filter_map(|own| {
                let left = per_minute(index) - per_minute(own);
                let rest = (0..index).rev().find(|rest| per_minute(*rest) <= left)?;
                Some(self.by_rate[own].saturating_add(other.by_rate[rest]))
            });
            both.chain(alone).min().unwrap_or(u64::MAX)
        });
        Self {
            packets,
            by_rate: by_rate.collect(),
        }
    }

    /// The load of the source: the fewest packets that any sufficient bucket lets through in the time of a flood.
    pub fn load(&self) -> u64 {
        let enough = (0..RATES.len())
            .filter_map(|index| Some(super::demand::through(index, self.burst(index)?)));
        enough.min().unwrap_or(u64::MAX)
    }
}

/// Packets in a minute at the rate of this index.
fn per_minute(index: usize) -> u64 {
    const MINUTE: u64 = 60_000_000_000;
    let rate = &RATES[index].0;
    rate.amount * (MINUTE / rate.period_ns)
}
