//! Warnings about limits whose room in the table a flood of new sources fills.

use crate::cli::output::note;
use crate::config::Settings;

/// The longest frame of an interface with the usual MTU.
pub const USUAL_FRAME: u64 = 1_522;

/// Warns about each such limit of `settings`; `subject` is what they are of.
pub fn warn(subject: &str, settings: &Settings, frame_max: u64) {
    // What is wrong with them is said elsewhere.
    for crowded in settings.crowded(frame_max).unwrap_or_default() {
        note(&format!(
            "{subject}: {}: {}",
            crowded.found(),
            crowded.advice()
        ));
    }
}
