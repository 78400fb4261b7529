//! The state of all attachments at one moment, for exporters.

use std::time::{Duration, Instant};

use limiter_kernel::{Attachment, Error, Result};
use serde::{Deserialize, Serialize};

use super::{Status, Top, collect, feeds, own_name};
use crate::ask;

/// Time limit for the agent's answers about fleets, for all attachments together. A slow agent must not delay the
/// rest.
const PATIENCE: Duration = Duration::from_millis(200);

/// Number of sources shown per table.
pub const TOP: usize = 20;

/// All attachments of this network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Name of the host.
    pub host: String,
    /// The content of `status --json`.
    #[serde(flatten)]
    pub status: Status,
    /// The content of `top --once --json` for each attachment, in the order of `status`.
    pub tops: Vec<Top>,
    /// Errors of attachments that cannot be read, one line each.
    #[serde(rename = "errors")]
    pub unreadable: Vec<String>,
    /// Trials that are over, so that nothing is limited, one line each.
    #[serde(default)]
    pub trials_over: Vec<String>,
}

impl Snapshot {
    /// Opens every attachment anew, to see attachments that are new, changed or gone since the last snapshot. Reads
    /// each table once.
    pub async fn take() -> Result<Self> {
        let mut snapshot = Self {
            host: own_name(),
            ..Self::default()
        };
        snapshot.status.feeds = feeds::all();
        let mut patience = PATIENCE;
        let read = async |attachment: Attachment| {
            let start = Instant::now();
            let fleet = ask::of(&attachment, patience).await;
            patience = patience.saturating_sub(start.elapsed());
            match collect::once(&attachment, TOP) {
                Ok(mut sample) => {
                    sample.interface.fleet = fleet;
                    snapshot.tops.push(sample.top);
                    snapshot.status.interfaces.push(sample.interface);
                }
                Err(error) => {
                    let name = &attachment.interface.name;
                    snapshot.unreadable.push(format!("{name}: {error}"));
                }
            }
        };
        let errors = Attachment::visit_all(read).await?;
        for error in errors {
            match error {
                Error::TrialOver(..) => snapshot.trials_over.push(error.to_string()),
                _ => snapshot.unreadable.push(error.to_string()),
            }
        }
        Ok(snapshot)
    }

    /// The errors and the trials that are over: notes on attachments that the snapshot lacks.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.unreadable.iter().chain(&self.trials_over)
    }
}
