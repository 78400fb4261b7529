//! What is meant: one value for everything that can be configured.

use clap::ValueEnum;
use limiter_common::limit::Terms;
use serde::{Deserialize, Serialize};

use super::{Burst, Invalid, Key, Rate, terms};

/// Name of the limit that the command line makes.
pub const DEFAULT_LIMIT: &str = "default";

/// How an interface is to be limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The limit that holds every IP packet.
    pub limit: Limit,
    /// Charge and count, but drop nothing.
    pub shadow: bool,
    /// What happens to malformed IP.
    pub malformed: Malformed,
    /// Sources that the table holds.
    pub max_sources: u32,
    /// Where the program is to run.
    pub mode: Mode,
}

/// Rate, burst and key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What `status` and the metrics call it.
    pub name: String,
    /// How fast a bucket refills.
    pub rate: Rate,
    /// How much it holds; left out, it follows the rate.
    pub burst: Option<Burst>,
    /// What of a source makes its bucket.
    pub key: Key,
}

impl Limit {
    /// The burst in force on an interface whose longest frame has `frame_max` bytes.
    pub fn burst(&self, frame_max: u64) -> Result<Burst, Invalid> {
        self.burst
            .unwrap_or_else(|| Burst::default_for(&self.rate, frame_max))
            .for_rate(&self.rate)
    }

    /// The kernel's terms there.
    pub fn terms(&self, frame_max: u64) -> Result<Terms, Invalid> {
        terms::terms(&self.rate, &self.burst(frame_max)?, frame_max)
    }
}

/// What happens to malformed IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Malformed {
    /// Dropped and counted.
    #[default]
    Drop,
    /// Passed and counted.
    Pass,
}

impl Malformed {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Pass => "pass",
        }
    }
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Native where the driver can, else generic, and says so.
    #[default]
    Auto,
    /// In the driver, before the kernel has spent anything on the packet.
    Native,
    /// In the network stack: works everywhere, and is several times slower.
    Generic,
}
