//! Questions of other commands to the agent, and their answers.

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::store::Edit;

/// The channel for an answer.
pub type Answer = oneshot::Sender<serde_json::Value>;

/// Sends an answer to the asking command, if it is still connected.
pub(super) fn reply<T: Serialize>(answer: Answer, with: Result<T, String>) {
    if let Ok(value) = serde_json::to_value(with) {
        // Without a receiver, the answer is not needed.
        let _ = answer.send(value);
    }
}

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
}
