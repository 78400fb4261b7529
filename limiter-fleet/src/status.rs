//! The agent's status of a fleet, for `status --json`.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The fleet of an attachment, as its agent reports it; part of `status --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fleet {
    /// Name of the fleet.
    pub name: String,
    /// True if an agent runs here. Without an agent, the limits apply to this host alone.
    pub agent: bool,
    /// Address of the store, without user and password; null without an agent.
    pub store: Option<String>,
    /// Reason why the store does not answer; null if it answers.
    pub error: Option<String>,
    /// Number of hosts that share the limits, including this one, at the store's last answer. A host with several
    /// interfaces counts once for each.
    pub hosts: u32,
    /// Maximum age of this host's knowledge of the others, in seconds; null if there never was an answer.
    pub staleness_seconds: Option<f64>,
    /// Number of sources that are tracked for the fleet.
    pub sources: u64,
    /// The shared limits.
    pub limits: Vec<SharedLimit>,
    /// Names of limits that other hosts of this fleet share and this host does not have.
    #[serde(default)]
    pub missing_limits: Vec<String>,
    /// Lines about entries of the fleet's lists and bans that are not in force here, because they would cut this host off.
    #[serde(default)]
    pub left_out: Vec<String>,
}

impl Fleet {
    /// Returns true if the limits are shared at present: an agent runs, and the store answers it.
    pub fn is_shared(&self) -> bool {
        self.agent && self.error.is_none() && self.staleness_seconds.is_some()
    }

    /// Limits that differ between this host and other hosts, or are missing here.
    pub fn conflicts(&self) -> u64 {
        let limits = self.limits.iter();
        let differing = limits.filter(|limit| !limit.conflicts.is_empty()).count();
        (differing + self.missing_limits.len()) as u64
    }
}

/// A shared limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLimit {
    /// Name of the limit.
    pub name: String,
    /// Maximum packets that the whole fleet passes per source beyond `burst + rate × t`, at the present staleness;
    /// null if it is not known.
    pub overshoot_packets: Option<u64>,
    /// Different settings of other hosts for a limit of this name, in words; at most 256.
    #[serde(default)]
    pub conflicts: Vec<String>,
}

/// A prefix that the fleet added to a list; part of `deny list --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listed {
    /// The prefix.
    pub prefix: String,
    /// Name of the host that added the prefix.
    pub by: String,
    /// Time since the prefix was added, in seconds.
    pub age_seconds: f64,
}

/// Formats a prefix. A single address has no length.
pub fn show(prefix: &IpNet) -> String {
    if prefix.prefix_len() == prefix.max_prefix_len() {
        prefix.addr().to_string()
    } else {
        prefix.to_string()
    }
}
