//! Entries of this command for the history.

use std::sync::OnceLock;

use super::note;
use crate::chronicle;

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
    let verb = VERB.get().map_or("limiter", String::as_str);
    if let Some(why) = chronicle::add(interface, event, verb, details) {
        note(&why);
    }
}
