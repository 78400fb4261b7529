//! Checks the room that each limit has in the table.

use super::{Finding, ok, warning};
use crate::config::{Settings, table_warning::ADVICE};

/// The effect of a flood of new sources on the limits in force.
pub fn finding(settings: &Settings, frame_max: u64) -> Finding {
    let warnings = settings.table_warnings(frame_max).unwrap_or_default();
    let finding = if warnings.is_empty() {
        ok("a flood of new sources fills the table for no limit")
    } else {
        warning(warnings.join("; "), ADVICE)
    };
    finding.of("room")
}
