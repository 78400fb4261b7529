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
    /// Drops that `limiter watch` was to tell and did not, of each of them, in the same order.
    pub events_lost: Vec<u64>,
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
            events_lost: Vec::new(),
            unreadable: errors.iter().map(ToString::to_string).collect(),
        };
        for attachment in &attachments {
            match read(attachment) {
                Ok((interface, top, events_lost)) => {
                    snapshot.status.interfaces.push(interface);
                    snapshot.tops.push(top);
                    snapshot.events_lost.push(events_lost);
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

fn read(attachment: &Attachment) -> Result<(super::Interface, Top, u64)> {
    let (interface, top) = collect::interface_and_top(attachment, TOP)?;
    Ok((interface, top, collect::events_lost(attachment)?))
}
