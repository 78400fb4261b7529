//! What is measured: how many sources there are, and what becomes of their packets.

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
/// The packet goes on.
pub const XDP_PASS: u32 = 2;

/// What becomes of every packet that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All are below the limit: the bucket is charged.
    Pass,
    /// All are over the limit: the bucket is only looked at.
    Drop,
}

impl Verdict {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pass, Self::Drop];

    /// What the program returns.
    pub fn action(self) -> u32 {
        match self {
            Self::Pass => XDP_PASS,
            Self::Drop => XDP_DROP,
        }
    }

    /// What the packets are counted under.
    pub fn reason(self) -> Reason {
        match self {
            Self::Pass => Reason::Admitted,
            Self::Drop => Reason::Limit,
        }
    }

    /// Rate and burst: either what no processor can exceed, or one packet and nothing more for as
    /// long as the benchmark takes.
    fn limit(self, cost: Cost) -> (&'static str, &'static str) {
        match (self, cost) {
            (Self::Pass, Cost::Packets) => ("1G/s", "1000000"),
            (Self::Drop, Cost::Packets) => ("1/100d", "1"),
            (Self::Pass, Cost::Bytes) => ("1tbit", "1000000b"),
            (Self::Drop, Cost::Bytes) => ("1bit", "60b"),
        }
    }
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
}

/// So many sources, whose packets all get the same verdict.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Number of sources, a power of two.
    pub sources: u32,
    /// What becomes of their packets.
    pub verdict: Verdict,
}

/// Places of the table where there are fewer sources: what `limiter attach` takes if nothing is said.
const CAPACITY_LEAST: u32 = 65_536;

impl Case {
    /// The program's constants. The table has room for twice as many sources, and takes them in as fast as
    /// they come.
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
