//! Heartbeats: the members that are alive, and the settings of each host's shared limits.

use std::time::Duration;

use super::{
    Store,
    connection::LuaScript,
    error::Error,
    exchange::MOST,
    names::{self, label},
};
use crate::conflicts::Held;

static SCRIPT: LuaScript = LuaScript::new(include_str!("heartbeat.lua"));

/// Maximum members kept and counted: the ones with the latest heartbeats.
pub const MEMBERS: usize = 10_000;
/// Maximum limits kept per fleet: the ones reported last.
pub const LIMITS: usize = 256;

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The store's time.
    pub now: Duration,
    /// Number of live members, including this one; at least 1, at most [`MEMBERS`].
    pub hosts: u32,
    /// Age of the oldest heartbeat among the live members.
    pub oldest: Duration,
    /// Changes when the lists change. The value is a time of the store, and does not repeat even if the store loses
    /// everything.
    pub revision: u64,
    /// The shared limits of all live members. Malformed entries are left out.
    pub held: Vec<Held>,
}

impl Store {
    /// Sends a member's heartbeat with its limits. Returns the answer about all members with a heartbeat within
    /// `alive`.
    pub async fn heartbeat(
        &mut self,
        fleet: &str,
        member: u64,
        label: &str,
        held: &[Held],
        alive: Duration,
    ) -> Result<Beat, Error> {
        let fleet = names::name(fleet)?;
        let keys = [
            names::members(fleet),
            names::limits(fleet),
            names::revision(fleet),
        ];
        let mut arguments = vec![
            alive.as_micros().to_string(),
            MEMBERS.to_string(),
            LIMITS.to_string(),
            entry(member, label)?,
        ];
        for held in held {
            arguments.push(written(held)?);
        }
        type Answer = (u64, u64, u64, u64, Vec<Vec<u8>>);
        let (now, hosts, oldest, revision, all): Answer =
            self.call(&SCRIPT, &keys, arguments).await?;
        if [now, hosts, oldest, revision]
            .iter()
            .any(|number| *number > MOST)
        {
            return Err(self.invalid("a number that is too large"));
        }
        let held = all.iter().filter_map(|entry| parsed(entry));
        Ok(Beat {
            now: Duration::from_micros(now),
            hosts: u32::try_from(hosts).unwrap_or(u32::MAX).clamp(1, 10_000),
            oldest: Duration::from_micros(oldest),
            revision,
            held: held.take(LIMITS).collect(),
        })
    }
}

fn entry(member: u64, text: &str) -> Result<String, Error> {
    Ok(format!("{member:016x} {}", label(text)?))
}

/// Writes a limit's settings: `NAME KEY COST TAU WORDS`.
fn written(held: &Held) -> Result<String, Error> {
    let (name, quota) = (names::name(&held.name)?, label(&held.quota)?);
    Ok(format!("{name} {quota} {}", label(&held.words)?))
}

fn parsed(entry: &[u8]) -> Option<Held> {
    let (name, rest) = std::str::from_utf8(entry).ok()?.split_once(' ')?;
    let (end, _) = rest.match_indices(' ').nth(2)?;
    let (quota, words) = (&rest[..end], &rest[end + 1..]);
    Some(Held {
        name: names::name(name).ok()?.to_owned(),
        quota: label(quota).ok()?.to_owned(),
        words: label(words).ok()?.to_owned(),
    })
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
        let text = written(&held).expect("an entry");
        assert_eq!(parsed(text.as_bytes()), Some(held));
        for bad in [
            "",
            "all",
            "all /32,/64 7 8",
            "all /32,/64 7 8 ",
            "a:l /32,/64 7 8 words",
            "all /32,/64 7 8 \u{1b}[31m",
            &format!("all /32,/64 7 8 {}", "x".repeat(129)),
        ] {
            assert_eq!(parsed(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parsed(b"all /32,/64 7 8 \xff"), None);
        assert!(entry(1, "a\nb").is_err());
    }
}
