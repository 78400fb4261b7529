//! Delays of packets, by limits that delay instead of dropping.

use limiter_common::abi::counters::{Counters, DELAYS, delay_bound};
use serde::{Deserialize, Serialize};

/// Packets that were delayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Delays {
    /// Number of packets.
    pub packets: u64,
    /// The sum of their delays, in seconds.
    pub seconds: f64,
    /// For bounds of the delay: packets that were delayed for less. Empty if no packet was delayed.
    pub below: Vec<Below>,
}

/// Packets with a delay below a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Below {
    /// The bound, in seconds.
    pub seconds: f64,
    /// Number of packets.
    pub packets: u64,
}

const NANOSECONDS: f64 = 1e9;

impl Delays {
    /// Reads the counters of the program.
    pub fn new(counters: &Counters) -> Self {
        let packets = counters.delays.iter().sum();
        let mut so_far = 0;
        let bounds = (0..DELAYS - 1).filter(|_| packets > 0);
        let below = bounds.map(|index| {
            so_far += counters.delays[index];
            Below {
                seconds: delay_bound(index) as f64 / NANOSECONDS,
                packets: so_far,
            }
        });
        Self {
            packets,
            seconds: counters.delayed as f64 / NANOSECONDS,
            below: below.collect(),
        }
    }

    /// The delays since `before`, of the same counters.
    pub fn since(mut self, before: &Self) -> Self {
        self.packets = self.packets.saturating_sub(before.packets);
        self.seconds -= before.seconds;
        // There are no bounds in `before` if no packet was delayed.
        for (below, before) in self.below.iter_mut().zip(&before.below) {
            below.packets = below.packets.saturating_sub(before.packets);
        }
        self
    }

    /// The least known bound of the delays of 99 % of the packets, in seconds. None if it is beyond all bounds, or if
    /// there are no packets.
    pub fn most(&self) -> Option<f64> {
        let most = self.packets - self.packets / 100;
        let bound = self.below.iter().find(|below| below.packets >= most);
        bound.filter(|_| most > 0).map(|below| below.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_since_a_scan_are_those_of_its_interval_alone() {
        let mut counters = Counters::default();
        let none = Delays::new(&counters);
        assert_eq!(none.most(), None);
        counters.delays[0] = 1_000;
        counters.delayed = 5_000_000;
        let first = Delays::new(&counters);
        assert_eq!(first.clone().since(&none), first);
        assert_eq!(
            first.clone().since(&first).most(),
            None,
            "nothing was delayed since"
        );
        counters.delays[7] = 99;
        counters.delays[8] = 1;
        counters.delayed += 2_000_000_000;
        let all = Delays::new(&counters);
        let since = all.clone().since(&first);
        assert_eq!((since.packets, since.seconds), (100, 2.0));
        let bound = |index| Some(delay_bound(index) as f64 / NANOSECONDS);
        assert_eq!(since.most(), bound(7));
        assert_eq!(all.most(), bound(7));
        counters.delays[8] += 1;
        let since = Delays::new(&counters).since(&first);
        assert_eq!(since.most(), bound(8), "99 of 101 are fewer than 99 %");
    }
}
