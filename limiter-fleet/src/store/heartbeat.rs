//! Heartbeats: the members that are alive, and the settings of each host's shared limits.

use std::time::Duration;

use super::{
    Store,
    engine::{Alive, Heartbeat, LIMITS, MOST},
    error::Error,
    names::{is_label, name, printable},
};
use crate::conflicts::Held;

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Number of live members, including this one; at least 1, at most [`MEMBERS`](super::MEMBERS).
    pub hosts: u32,
    /// Age of the oldest heartbeat among the live members.
    pub oldest: Duration,
    /// Changes when the lists change. The value is a time of the store, and does not repeat even if the store loses
    /// everything.
    pub revision: u64,
    /// True if a list of this member is shorter than the store has recorded: the server has evicted it.
    pub is_short: bool,
    /// The shared limits of all live members. Malformed entries are left out.
    pub held: Vec<Held>,
}

impl Store {
    /// Sends a member's heartbeat with its limits and the names of the lists that it shares. Returns the answer about all members with a heartbeat within
    /// `alive`.
    pub async fn heartbeat(
        &mut self,
        fleet: &str,
        member: u64,
        label: &str,
        held: &[Held],
        lists: &[String],
        alive: Duration,
    ) -> Result<Beat, Error> {
        let held = held.iter().map(|held| serde_json::json!(held).to_string());
        for list in lists {
            name(list)?;
        }
        let heartbeat = Heartbeat {
            fleet: name(fleet)?,
            member,
            label: &printable(label),
            held: held.collect(),
            lists,
            alive: u64::try_from(alive.as_micros()).unwrap_or(MOST).min(MOST),
        };
        let alive = self.engine.heartbeat(&heartbeat).await?;
        let Alive {
            hosts,
            oldest,
            revision,
            is_short,
            held,
        } = alive;
        if hosts.max(oldest).max(revision) > MOST {
            return Err(self.target.invalid("a number that is too large"));
        }
        let held = held.iter().filter_map(|entry| parsed(entry));
        Ok(Beat {
            hosts: u32::try_from(hosts).unwrap_or(u32::MAX).clamp(1, 10_000),
            oldest: Duration::from_micros(oldest),
            revision,
            is_short,
            held: held.take(LIMITS).collect(),
        })
    }
}

fn parsed(entry: &[u8]) -> Option<Held> {
    let held: Held = serde_json::from_slice(entry).ok()?;
    let is_valid = name(&held.name).is_ok() && is_label(&held.quota) && is_label(&held.words);
    is_valid.then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_limit_record_is_ignored() {
        let held = Held {
            name: "all".to_owned(),
            quota: "/32,/64 7 18446744073709551615".to_owned(),
            words: "100/s, burst 200, per /32,/64".to_owned(),
        };
        let text = |name: &str, quota: &str, words: &str| {
            serde_json::json!({"name": name, "quota": quota, "words": words}).to_string()
        };
        let good = text(&held.name, &held.quota, &held.words);
        assert_eq!(parsed(good.as_bytes()), Some(held));
        for bad in [
            String::new(),
            good.replace("words", "more"),
            good.replace('}', ",\"more\":1}"),
            text("a:l", "/32 7 8", "words"),
            text("all", "/32 7 8", ""),
            text("all", "/32 7 8", "\u{1b}[31m"),
            text("all", "/32 7 8", &"x".repeat(129)),
        ] {
            assert_eq!(parsed(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
