//! Everything about all attachments, as of one moment: what an exporter shows.

use super::{Status, collect, source::Top};
use crate::kernel::{Attachment, error::Result};

/// Sources that are shown of each table.
pub const TOP: usize = 20;

/// All attachments of this network namespace.
#[derive(Clone, Debug, PartialEq)]
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
        for attachment in &attachments {
            match collect::interface_and_top(attachment, TOP) {
                Ok((interface, top)) => {
                    snapshot.status.interfaces.push(interface);
                    snapshot.tops.push(top);
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
