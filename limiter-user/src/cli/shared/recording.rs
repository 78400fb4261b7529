//! Entries of this command for the history.

use std::sync::OnceLock;

use limiter_config::Settings;
use limiter_kernel::state::Record;

use super::note;
use crate::{chronicle, last};

static VERB: OnceLock<String> = OnceLock::new();

/// Sets the verb of this command.
pub fn name(verb: Option<&str>) {
    if let Some(verb) = verb {
        // A command has one verb.
        let _ = VERB.set(verb.to_owned());
    }
}

/// Writes an entry about `interface` for the history, and to the journal. A failure is a note: the change is made.
pub fn record(interface: &str, event: &str, details: &[String]) {
    record_until(interface, event, details, None);
}

/// [`record`] of an event after which a trial runs, until this time (RFC 3339).
pub fn record_until(interface: &str, event: &str, details: &[String], trial: Option<&str>) {
    let verb = VERB.get().map_or("limiter", String::as_str);
    if let Some(why) = chronicle::add(interface, event, verb, details, trial) {
        note(&why);
    }
}

/// Keeps settings that are in force for good, for a start with a file that has a mistake. Settings without a file are no
/// unit's. A failure is a note.
pub fn keep_last(interface: &str, record: &Record, own: &Settings) {
    if record.file.is_none() {
        return;
    }
    if let Err(error) = last::write(interface, own) {
        note(&format!(
            "{interface}: in force, but not kept for a start with a file that has a mistake: {error:#}"
        ));
    }
}
