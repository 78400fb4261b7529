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
        let mut below = Vec::new();
        if packets > 0 {
            let mut so_far = 0;
            below.extend((0..DELAYS - 1).map(|index| {
                so_far += counters.delays[index];
                Below {
                    seconds: delay_bound(index) as f64 / NANOSECONDS,
                    packets: so_far,
                }
            }));
        }
        Self {
            packets,
            seconds: counters.delayed as f64 / NANOSECONDS,
            below,
        }
    }

    /// The least known bound of the delays of 99 % of the packets, in seconds. None if it is beyond all bounds.
    pub fn most(&self) -> Option<f64> {
        let most = self.packets - self.packets / 100;
        let bound = self.below.iter().find(|below| below.packets >= most);
        bound.map(|below| below.seconds)
    }
}
