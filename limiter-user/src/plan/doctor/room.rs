//! The room that each limit has in the table.

use super::Finding;
use crate::config::{Settings, crowded::Crowded};

const CHECK: &str = "room";

/// What a flood of new sources makes of the limits that are in force.
#[must_use]
pub fn finding(settings: &Settings, frame_max: u64) -> Finding {
    let crowded = settings.crowded(frame_max).unwrap_or_default();
    if crowded.is_empty() {
        return Finding::ok(CHECK, "no limit's room is filled by a flood of new sources");
    }
    let all = |say: fn(&Crowded) -> String| {
        let said: Vec<_> = crowded.iter().map(say).collect();
        said.join("; ")
    };
    Finding::warning(CHECK, all(Crowded::found), all(Crowded::advice))
}
