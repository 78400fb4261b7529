//! Questions of other commands to the agent.

use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A question to the agent about an interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The interface.
    pub interface: String,
    /// The subject.
    pub about: Subject,
}

/// The subject of a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Subject {
    /// The state of the fleet. The answer is a `Result<Fleet, String>`.
    Fleet,
    /// The fleet's entries on a list. The answer is a `Result<Vec<Listed>, String>`.
    Listed(String),
    /// A change of a list. The answer is a `Result<u64, String>`: the number of changed prefixes.
    Edit(String, Edit),
    /// The addresses of the store. The answer is a `Result<Vec<IpAddr>, String>`.
    Store,
}

/// A change of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Edit {
    /// Adds prefixes, and renews prefixes that are already there.
    Add {
        /// The prefixes.
        prefixes: Vec<IpNet>,
        /// Lifetime of the entries, for bans; without it, they stay until they are removed.
        lasts: Option<Duration>,
        /// The reason, for bans; may be empty.
        reason: String,
    },
    /// Removes prefixes.
    Remove(Vec<IpNet>),
}
