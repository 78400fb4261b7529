//! The history of an attachment: who changed it, when, from which values to which.

use serde::{Deserialize, Serialize};

/// The event of a trial that has ended by itself.
pub const TRIAL_END: &str = "trial-end";

/// The history of an interface.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct History {
    /// Name of the interface.
    pub interface: String,
    /// The events of the asked time, from the earliest one on.
    pub entries: Vec<Entry>,
    /// Number of lines of the file that are no events, and are left out.
    pub unreadable: usize,
}

/// An event in the life of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entry {
    /// Time, RFC 3339.
    pub time: String,
    /// `attach`, `change`, `trial`, `trial-end` (of a trial that nobody kept), `keep`, `revert`, `detach`, `ban`, `unban`, `reset`,
    /// `save`, `fall-back` (of a start), `flood-begin` or `flood-end`.
    pub event: String,
    /// Name of the user: the one that called `sudo`, or that of the process. Of `trial-end`: the one that began the trial.
    pub user: String,
    /// Number of that user.
    pub uid: u32,
    /// The verb: `set`, for example; `export` or `notify` for floods.
    pub command: String,
    /// The changes, as the command prints them, with the values before and after.
    pub details: Vec<String>,
    /// The end of the trial that runs after the event, RFC 3339; absent if none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_until: Option<String>,
}
