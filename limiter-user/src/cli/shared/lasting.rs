//! The duration of a change: `--try` and `--dry-run`, and the report about them.

use std::time::Duration;

use clap::Args;
use limiter_config::difference::difference;
use limiter_kernel::ops::set::{Lasts, Swapped};

use super::{
    DAY, Extent, SECOND, duration, keep_last, note, outcome, record_until, warn_of_slow_tcp,
};

// The options of verbs that change settings in force. No doc comment: clap would make it the help of the verb.
#[derive(Debug, Args)]
pub struct Lasting {
    /// Undo the change after this time unless `limiter keep` runs before: 1s to 1day, as in 90s or 10m
    #[arg(long = "try", value_name = "DURATION", value_parser = duration(SECOND..=DAY, "90s"), allow_hyphen_values = true)]
    try_for: Option<Duration>,
    /// Print the changes, but make none
    #[arg(long, conflicts_with = "try_for")]
    dry_run: bool,
}

impl Lasting {
    pub fn lasts(&self) -> Lasts {
        match self.try_for {
            _ if self.dry_run => Lasts::DryRun,
            Some(duration) => Lasts::Trial(duration),
            None => Lasts::ForGood,
        }
    }
}

/// Prints the changes, one per line, and their duration, and warns about what they leave. `partly`: a part of the request
/// changed nothing.
pub fn report_changes(interface: &str, changed: &Swapped, lasts: Lasts, partly: bool) {
    let mut changes = difference(&changed.old, &changed.new, changed.record.frame_max);
    let [before, now] = [changed.frame_max_before, changed.record.frame_max];
    if before != now {
        changes.push(format!("longest frame {before} -> {now} bytes"));
    }
    let unchanged = changes.is_empty();
    let duration = duration_text(interface, changed, lasts);
    if !unchanged && lasts != Lasts::DryRun {
        let trial = changed.record.trial.and_then(|trial| trial.end().ok());
        let event = match lasts {
            Lasts::Trial(_) => "trial",
            _ => "change",
        };
        let details: Vec<_> = changes.iter().chain(&duration).cloned().collect();
        record_until(interface, event, &details, trial.as_deref());
    }
    if lasts == Lasts::ForGood && changed.record.trial.is_none() {
        keep_last(interface, &changed.record, &changed.new);
    }
    if unchanged {
        changes.push("unchanged: already in force".to_owned());
    }
    changes.extend(duration);
    let extent = match lasts {
        _ if unchanged => Extent::Nothing,
        // With `--strict`, a part that is missing fails a dry run too.
        Lasts::DryRun if partly => Extent::Nothing,
        Lasts::DryRun => Extent::DryRun,
        _ if partly => Extent::Part,
        _ => Extent::All,
    };
    outcome(interface, extent, &changes.join("\n"));
    let limits = changed.new.limits.iter();
    let limits = limits.filter(|limit| !changed.old.limits.contains(limit));
    warn_of_slow_tcp(interface, &changed.new, limits);
}

/// Notes that the configuration file does not have a change that lasts: the next reload, or the next boot of a
/// service, would silently undo it.
pub fn note_stale_file(interface: &str, changed: &Swapped, lasts: Lasts) {
    let stays = lasts == Lasts::ForGood && changed.old != changed.new;
    if let Some(file) = changed.record.file.as_ref().filter(|_| stays) {
        note(&format!(
            "{} does not have this change: `limiter reload {interface}` would undo it; `limiter config show {interface}` prints the settings in force",
            file.display()
        ));
    }
}

/// The duration of a change as text, if there is a trial or nothing was changed.
fn duration_text(interface: &str, changed: &Swapped, lasts: Lasts) -> Option<String> {
    let until = changed.record.trial.and_then(|trial| trial.end().ok());
    match (lasts, until) {
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
