//! Questions of other commands to the agent, and their answers.

use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// The channel for an answer.
pub type Answer = oneshot::Sender<serde_json::Value>;

/// Sends an answer to the asking command, if it is still connected.
pub(super) fn reply<T: Serialize>(answer: Answer, with: Result<T, String>) {
    if let Ok(value) = serde_json::to_value(with) {
        // Without a receiver, the answer is not needed.
        let _ = answer.send(value);
    }
}

/// Maximum prefixes in one question, which has at most 64 KiB.
const AT_ONCE: usize = 1_000;

/// A question to the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// The state of the fleet of this interface. The answer is a `Result<Fleet, String>`.
    Fleet(String),
    /// The fleet's entries on a list. The answer is a `Result<Vec<Listed>, String>`.
    Listed {
        /// The interface.
        interface: String,
        /// The list.
        list: String,
    },
    /// A change of a list. The answer is a `Result<u64, String>`: the number of changed prefixes.
    Edit {
        /// The interface.
        interface: String,
        /// The list.
        list: String,
        /// The change.
        edit: Edit,
        /// True if more parts of the change follow. Then the answer does not wait until this part is in force.
        is_part: bool,
    },
}

/// A change of a fleet's list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Edit {
    /// Adds prefixes.
    Add {
        /// The prefixes.
        prefixes: Vec<IpNet>,
        /// Lifetime of the entries; without it, they stay until they are removed.
        lasts: Option<Duration>,
    },
    /// Removes prefixes.
    Remove(Vec<IpNet>),
}

impl Edit {
    /// Divides a change into parts that fit into one question each.
    pub fn parts(&self) -> Vec<Self> {
        match self {
            Self::Add { prefixes, lasts } => {
                let add = |prefixes: &[IpNet]| Self::Add {
                    prefixes: prefixes.to_vec(),
                    lasts: *lasts,
                };
                prefixes.chunks(AT_ONCE).map(add).collect()
            }
            Self::Remove(prefixes) => {
                let remove = |prefixes: &[IpNet]| Self::Remove(prefixes.to_vec());
                prefixes.chunks(AT_ONCE).map(remove).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_an_edit_fits_into_a_question() {
        let longest = "2001:0db8:1111:2222:3333:4444:5555:6666/128"
            .parse()
            .unwrap();
        let edit = Edit::Add {
            prefixes: vec![longest; 2 * AT_ONCE + 1],
            lasts: Some(Duration::from_nanos(u64::MAX)),
        };
        let parts = edit.parts();
        assert_eq!(parts.len(), 3);
        for edit in parts {
            let question = Question::Edit {
                interface: "i".repeat(15),
                list: "l".repeat(64),
                edit,
                is_part: true,
            };
            let length = serde_json::to_vec(&question).unwrap().len();
            assert!(length <= 64 << 10, "{length}");
        }
        assert_eq!(Edit::Remove(vec![longest; AT_ONCE]).parts().len(), 1);
    }
}
