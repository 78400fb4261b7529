//! Everything about all attachments, as of one moment: what an exporter shows.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Interface, Status, collect, source::Top};
use crate::{
    agent::ask,
    kernel::{Attachment, error::Result},
};

/// For how long the agent may be asked about fleets, for all attachments together: the others are not to wait for it.
const PATIENCE: Duration = Duration::from_millis(200);

/// Sources that are shown of each table.
pub const TOP: usize = 20;

/// The question to which a `Result<Snapshot, String>` is the answer ([`crate::helper`]).
#[derive(Debug, Serialize, Deserialize)]
pub struct TakeSnapshot;

/// All attachments of this network namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// `status --json`.
    pub status: Status,
    /// `top --once --json` of each of them, in the same order.
    pub tops: Vec<Top>,
    /// What is the matter with attachments that cannot be read, in a line each.
    pub unreadable: Vec<String>,
}

impl Snapshot {
    /// Opens every attachment anew, so that what was attached, changed, detached or has vanished since the last time
    /// is seen. Reads each table once.
    pub async fn take() -> Result<Self> {
        let (attachments, errors) = Attachment::all().await?;
        let mut snapshot = Self {
            status: Status {
                interfaces: Vec::new(),
            },
            tops: Vec::new(),
            unreadable: errors.iter().map(ToString::to_string).collect(),
        };
        let mut patience = PATIENCE;
        for attachment in &attachments {
            let start = Instant::now();
            let fleet = ask::of(attachment, patience).await;
            patience = patience.saturating_sub(start.elapsed());
            match collect::once(attachment, TOP) {
                Ok(sample) => {
                    snapshot.tops.push(Top::new(&sample));
                    let interface = Interface {
                        fleet,
                        ..sample.interface
                    };
                    snapshot.status.interfaces.push(interface);
                }
                Err(error) => {
                    let name = &attachment.interface.name;
                    snapshot.unreadable.push(format!("{name}: {error}"));
                }
            }
        }
        Ok(snapshot)
    }
}
