//! Defines the cases of the steps: number of sources, and verdict on their packets.

use anyhow::Result;
use limiter_common::{abi::Config, policy::verdict::Reason};
use limiter_user::config::{
    Limit, Settings,
    compile::{FIRST_SLOT, TierBits},
    slot::Slot,
};
use serde::Serialize;

/// `enum xdp_action` (include/uapi/linux/bpf.h): the packet is dropped.
pub const XDP_DROP: u32 = 1;
/// The packet passes.
pub const XDP_PASS: u32 = 2;

/// The verdict on every measured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All packets are below the limit: the bucket is charged.
    Pass,
    /// All packets are over the limit: the bucket is only checked.
    Drop,
}

impl Verdict {
    pub const ALL: [Self; 2] = [Self::Pass, Self::Drop];

    /// The word for the verdict in tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Drop => "drop",
        }
    }

    /// The return value of the program.
    pub fn action(self) -> u32 {
        match self {
            Self::Pass => XDP_PASS,
            Self::Drop => XDP_DROP,
        }
    }

    /// The reason that counts the packets.
    pub fn reason(self) -> Reason {
        match self {
            Self::Pass => Reason::Admitted,
            Self::Drop => Reason::Limit,
        }
    }

    /// Rate and burst: unreachable for any processor, or one packet and nothing more during the benchmark.
    fn limit(self, cost: Cost) -> (&'static str, &'static str) {
        match (self, cost) {
            (Self::Pass, Cost::Packets) => ("1G/s", "1000000"),
            (Self::Drop, Cost::Packets) => ("1/100d", "1"),
            (Self::Pass, Cost::Bytes) => ("1tbit", "1000000b"),
            (Self::Drop, Cost::Bytes) => ("1bit", "60b"),
        }
    }
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    Packets,
    Bytes,
}

/// A number of sources, and the verdict on all of their packets.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Number of sources, a power of two.
    pub sources: u32,
    pub verdict: Verdict,
}

/// Least number of sources in the table: the default of `limiter attach`.
const CAPACITY_LEAST: u32 = 65_536;

impl Case {
    /// The program's constants. The table has room for twice as many sources, and admits new ones at once.
    pub fn config(&self, cost: Cost) -> Result<Config> {
        const FRAME: u64 = 60;
        const NAME: &str = "bench";
        let (rate, burst) = self.verdict.limit(cost);
        let settings = Settings {
            max_sources: (2 * self.sources).max(CAPACITY_LEAST),
            new_sources: None,
            limits: vec![Limit {
                burst: Some(burst.parse()?),
                ..Limit::new(NAME, rate.parse()?)
            }],
            ..Settings::default()
        };
        let slot = Slot {
            phase: 0,
            ..Slot::new(&settings.limits[0], FIRST_SLOT)
        };
        Ok(settings.compile(&[slot], &TierBits::default(), FRAME)?)
    }
}
