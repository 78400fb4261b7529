//! `new_sources`: how fast sources come into the table.

use serde::{Deserialize, Serialize};

use super::Rate;

/// The limit on new sources in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSources {
    /// New sources per period.
    pub rate: Rate,
    /// The most new sources at once; `None`: those of 6.5536 seconds at the rate.
    pub burst: Option<u64>,
    /// A refused source that comes again has a budget of its own: [`SECOND_CHANCES`] of rate and burst more.
    pub second_chance: bool,
}

/// The budget of second chances, as a fraction of the rate and the burst.
pub const SECOND_CHANCES: (u64, u64) = (1, 4);
/// The budget of answers to SYNs, as such a fraction: large, because it should last in a flood.
pub const ANSWERS: (u64, u64) = (100, 1);

impl Default for NewSources {
    /// 10,000 per second, 65,536 at once.
    fn default() -> Self {
        Self::new(Rate::packets_per_second(10_000))
    }
}

impl NewSources {
    /// The limit with this rate, and defaults.
    pub const fn new(rate: Rate) -> Self {
        Self {
            rate,
            burst: None,
            second_chance: true,
        }
    }

    /// The burst in force.
    pub fn burst(&self) -> u64 {
        const NANOSECONDS: u64 = 6_553_600_000;
        self.burst
            .unwrap_or_else(|| self.rate.tokens_in(NANOSECONDS).max(1))
    }
}
