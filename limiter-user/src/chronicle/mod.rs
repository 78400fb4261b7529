//! The lasting record of an attachment: a bounded file for `limiter history`, and the journal.
//!
//! The command that makes a change writes its entry, after the change. A record that cannot be written fails no command.

mod file;
mod floods;
mod journal;
mod trials;

use std::{env, time::SystemTime};

use anyhow::anyhow;
use limiter_kernel::sys::clock;
use nix::unistd::{Uid, User, geteuid, getuid};

use crate::observe::Entry;

pub use file::read;
pub use floods::Floods;

/// The most details of an entry, and the most characters of one.
const DETAILS: usize = 20;
const LONGEST: usize = 200;
/// The most characters of a user's name.
const NAME: usize = 32;

/// Writes an entry about `interface`. `trial_until`: the end of the trial that runs now. Returns the reason if it is not in the history.
pub fn add(
    interface: &str,
    event: &str,
    command: &str,
    details: &[String],
    trial_until: Option<&str>,
) -> Option<String> {
    let entry = Entry {
        trial_until: trial_until.map(str::to_owned),
        ..entry(event, command, details)
    };
    journal::tell(interface, &entry);
    // Without root's rights, there is only the journal.
    if !geteuid().is_root() && env::var_os("STATE_DIRECTORY").is_none() {
        return None;
    }
    let added = file::append(interface, &entry);
    added.err().map(|error| {
        format!("{interface}: this is done, but not in the history (`limiter history`): {error:#}")
    })
}

fn entry(event: &str, command: &str, details: &[String]) -> Entry {
    let (user, uid) = user();
    let mut kept: Vec<_> = details
        .iter()
        .take(DETAILS)
        .map(|text| cut(text, LONGEST))
        .collect();
    if details.len() > DETAILS {
        kept.push(format!("and {} more", details.len() - DETAILS));
    }
    Entry {
        time: clock::shown(SystemTime::now()),
        event: event.to_owned(),
        user: cut(&user, NAME),
        uid,
        command: command.to_owned(),
        details: kept,
        trial_until: None,
    }
}

/// At most so many characters of a text.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The user that works: of `sudo` or `doas`, if root was asked by it.
fn user() -> (String, u32) {
    let uid = getuid();
    if uid.is_root() {
        for (name, number) in [("SUDO_USER", "SUDO_UID"), ("DOAS_USER", "")] {
            if let Ok(name) = env::var(name)
                && !name.is_empty()
            {
                let number = env::var(number).ok().and_then(|number| number.parse().ok());
                return (name, number.unwrap_or(uid.as_raw()));
            }
        }
    }
    (name_of(uid), uid.as_raw())
}

fn name_of(uid: Uid) -> String {
    let user = User::from_uid(uid).map_err(|error| anyhow!(error));
    user.ok()
        .flatten()
        .map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded() {
        let details: Vec<_> = (0..30)
            .map(|number| format!("{number}{}", "é".repeat(300)))
            .collect();
        let entry = entry("change", "set", &details);
        assert_eq!(entry.details.len(), DETAILS + 1);
        assert_eq!(entry.details[DETAILS], "and 10 more");
        assert_eq!(entry.details[0].chars().count(), LONGEST + 3);
    }
}
