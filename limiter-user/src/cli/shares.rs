//! Warnings about limits whose room in the table a flood of new sources fills.

use crate::{cli::output::note, config::Settings};

/// Warns about each such limit of `settings`; `subject` is what they are of. Returns how many there are.
pub fn warn(subject: &str, settings: &Settings, frame_max: u64) -> usize {
    // What is wrong with them is said elsewhere.
    let all = settings.crowded(frame_max).unwrap_or_default();
    for crowded in &all {
        note(&format!(
            "{subject}: {}: {}",
            crowded.found(),
            crowded.advice()
        ));
    }
    all.len()
}
