//! What the agent says of a fleet.

use serde::{Deserialize, Serialize};

/// The fleet of an attachment, as its agent sees it; part of `status --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fleet {
    /// Its name.
    pub name: String,
    /// Whether an agent works here. Without one the limits hold on this host alone.
    pub agent: bool,
    /// Where the store is, without user and password; null without an agent.
    pub store: Option<String>,
    /// Why the store does not answer; null where it does.
    pub error: Option<String>,
    /// Hosts (interfaces, where one has several) that share the limits, this one among them; when the store was last
    /// heard of.
    pub hosts: u32,
    /// How old what is known of the others is, at most; null where nothing ever was.
    pub staleness_seconds: Option<f64>,
    /// Sources that account is kept of.
    pub sources: u64,
    /// The limits that are shared.
    pub limits: Vec<SharedLimit>,
    /// Names of limits that other hosts share by this fleet, and this one does not.
    #[serde(default)]
    pub missing_limits: Vec<String>,
}

impl Fleet {
    /// Whether the limits are shared at this moment: there is an agent, and the store answers it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.agent && self.error.is_none() && self.staleness_seconds.is_some()
    }

    /// Limits that differ between this host and other hosts, or are missing here.
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        let limits = self.limits.iter();
        let differing = limits.filter(|limit| !limit.conflicts.is_empty()).count();
        (differing + self.missing_limits.len()) as u64
    }
}

/// A limit that is shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLimit {
    /// Its name.
    pub name: String,
    /// Packets that the whole fleet lets through of one source beyond `burst + rate × t`, at most, at the staleness
    /// above; null where that is not known.
    pub overshoot_packets: Option<u64>,
    /// Other settings that other hosts have for a limit of this name, in words; at most 256.
    #[serde(default)]
    pub conflicts: Vec<String>,
}

/// A prefix that the fleet has put on a list; part of `deny list --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listed {
    /// The prefix.
    pub prefix: String,
    /// Who has added it.
    pub by: String,
    /// How long ago, in seconds.
    pub age_seconds: f64,
    /// For how much longer it is there, in seconds; null: until somebody removes it.
    pub left_seconds: Option<f64>,
}
