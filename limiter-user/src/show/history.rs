//! `history` as text.

use limiter_config::escape;

use crate::observe::{Entry, History, TRIAL_END};

/// The events, each with its details below, and where there are none, a line that says so.
pub fn lines(history: &History, asked: &str) -> String {
    let interface = &history.interface;
    if history.entries.is_empty() {
        return format!("{interface}: no changes in the last {asked}\n");
    }
    let entries = history.entries.iter();
    entries.map(|entry| event(interface, entry)).collect()
}

fn event(interface: &str, entry: &Entry) -> String {
    let Entry {
        time,
        event,
        user,
        command,
        details,
        ..
    } = entry;
    // None of these texts makes a line of its own.
    let [event, user, command] = [event, user, command].map(|text| escape(text, |_| false));
    let head = match &*event {
        TRIAL_END => {
            format!("{time}  {interface}: {event} by itself (limiter {command} by {user})\n")
        }
        _ => format!("{time}  {interface}: {event} by {user} (limiter {command})\n"),
    };
    let details = details.iter();
    head + &details
        .map(|detail| format!("    {}\n", escape(detail, |_| false)))
        .collect::<String>()
}
