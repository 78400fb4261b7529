//! The duration of a change: `--try` and `--dry-run`, and the report about them.

use std::time::Duration;

use clap::Args;

use super::values::duration;
use crate::{
    config::difference::difference,
    kernel::ops::{
        set::{Lasts, Swapped},
        trial,
    },
};

// The options of verbs that change settings in force. No doc comment: clap would make it the help of the verb.
#[derive(Debug, Args)]
pub struct Lasting {
    /// Undo the change after this time unless `limiter keep` runs before: 1s to 1day, as in 90s or 10m
    #[arg(long = "try", value_name = "DURATION", value_parser = try_for, allow_hyphen_values = true)]
    try_for: Option<Duration>,
    /// Print the changes, but make none
    #[arg(long, conflicts_with = "try_for")]
    dry_run: bool,
}

impl Lasting {
    /// The duration of the change.
    pub fn lasts(&self) -> Lasts {
        match self.try_for {
            _ if self.dry_run => Lasts::DryRun,
            Some(duration) => Lasts::Trial(duration),
            None => Lasts::ForGood,
        }
    }
}

/// Reads the duration of a trial.
pub fn try_for(text: &str) -> Result<Duration, String> {
    duration(text, trial::BOUNDS, "90s")
}

/// Returns true if the change had no effect.
pub fn is_unchanged(changed: &Swapped) -> bool {
    changed.old == changed.new
}

/// The changes, one per line, and their duration.
pub fn changes_text(interface: &str, changed: &Swapped, lasts: Lasts) -> String {
    let mut changes = difference(&changed.old, &changed.new, changed.frame_max);
    if changes.is_empty() {
        changes.push("unchanged: already in force".to_owned());
    }
    changes.extend(duration_text(interface, changed, lasts));
    let lines = changes.into_iter();
    lines.map(|line| format!("{interface}: {line}\n")).collect()
}

/// The duration of a change as text, if there is a trial or nothing was changed.
pub fn duration_text(interface: &str, changed: &Swapped, lasts: Lasts) -> Option<String> {
    match (lasts, &changed.try_until) {
        (Lasts::DryRun, _) => Some("dry run: nothing was changed".to_owned()),
        (Lasts::Trial(_), Some(until)) => Some(format!(
            "ON TRIAL: undone at {until} unless you run `limiter keep {interface}`"
        )),
        (Lasts::ForGood, Some(until)) => Some(format!(
            "permanent; the trial of the other changes ends at {until}"
        )),
        (_, None) => None,
    }
}
