//! The room that each limit has in the table.

use super::Finding;
use crate::config::{Settings, table_warning::TableWarning};

const CHECK: &str = "room";

/// What a flood of new sources makes of the limits that are in force.
#[must_use]
pub fn finding(settings: &Settings, frame_max: u64) -> Finding {
    let warnings = settings.table_warnings(frame_max).unwrap_or_default();
    if warnings.is_empty() {
        return Finding::ok(CHECK, "no limit's room is filled by a flood of new sources");
    }
    let all = |say: fn(&TableWarning) -> String| {
        let said: Vec<_> = warnings.iter().map(say).collect();
        said.join("; ")
    };
    Finding::warning(CHECK, all(TableWarning::found), all(TableWarning::advice))
}
