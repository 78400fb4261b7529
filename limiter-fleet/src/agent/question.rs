//! What other commands ask the agent, and its answers.

use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// Where an answer goes.
pub type Answer = oneshot::Sender<serde_json::Value>;

/// Sends an answer to whoever has asked, if that is still there.
pub(super) fn reply<T: Serialize>(answer: Answer, with: Result<T, String>) {
    if let Ok(value) = serde_json::to_value(with) {
        // Whoever has gone away needs no answer.
        let _ = answer.send(value);
    }
}

/// Prefixes in one question: it has at most 64 KiB.
const AT_ONCE: usize = 1_000;

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// How is the fleet of this interface? A `Result<Fleet, String>`.
    Fleet(String),
    /// Who has put what on its list? A `Result<Vec<Listed>, String>`.
    Listed {
        /// The interface.
        interface: String,
        /// The list.
        list: String,
    },
    /// To change the list: a `Result<u64, String>`, how many prefixes that has changed.
    Edit {
        /// The interface.
        interface: String,
        /// The list.
        list: String,
        /// How.
        edit: Edit,
        /// Whether more of the same is to come: then it need not be in force yet when the answer comes.
        is_part: bool,
    },
}

/// A change of a fleet's list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Edit {
    /// Puts prefixes on it.
    Add {
        /// Which.
        prefixes: Vec<IpNet>,
        /// For how long; without it, until they are removed.
        lasts: Option<Duration>,
    },
    /// Takes them off.
    Remove(Vec<IpNet>),
}

impl Edit {
    /// Divides a change into parts, each of which fits into one question.
    #[must_use]
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
    fn a_question_has_room_for_each_part() {
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
