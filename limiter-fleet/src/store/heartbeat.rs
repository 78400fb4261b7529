//! Who is there.

use std::{sync::LazyLock, time::Duration};

use redis::Script;

use super::{Store, connection::Call, error::Error, exchange::MOST, names};
use crate::conflicts::Held;

const SOURCE: &str = include_str!("heartbeat.lua");
static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(SOURCE));
const LIST: &str = include_str!("members.lua");
static LIST_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(LIST));

/// Members that are kept, and counted; those heard of last.
pub const MEMBERS: usize = 10_000;
/// Members that are listed.
const LISTED: u32 = 1_000;
/// Longest label.
const LABEL: usize = 128;

/// What a member learns by saying that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Time of the store.
    pub now: Duration,
    /// Members that are alive, this one among them; at least 1, at most [`MEMBERS`].
    pub hosts: u32,
    /// How long ago the one of them was heard of that was not for longest.
    pub oldest: Duration,
    /// Another one than before: the lists have changed. A time of the store: also where it has lost everything, it
    /// does not come again.
    pub revision: u64,
}

/// A member, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// Its id.
    pub member: u64,
    /// What it calls itself: host and interface.
    pub label: String,
    /// How long ago it was heard of.
    pub age: Duration,
}

/// What a member may call itself: printable ASCII, so that it can do no harm where it is shown.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    !text.is_empty() && text.len() <= LABEL && text.bytes().all(printable)
}

pub(super) fn label(text: &str) -> Result<&str, Error> {
    if is_label(text) {
        return Ok(text);
    }
    Err(Error::Label(text.escape_debug().take(LABEL).collect()))
}

impl Store {
    /// Says that a member is there, and learns how many have said so within `alive`.
    ///
    /// # Errors
    /// As [`Self::exchange`].
    pub async fn heartbeat(
        &mut self,
        fleet: &str,
        member: u64,
        label: &str,
        alive: Duration,
    ) -> Result<Beat, Error> {
        let fleet = names::name(fleet)?;
        let call = Call {
            script: &SCRIPT,
            source: SOURCE,
            keys: &[names::members(fleet), names::revision(fleet)],
            arguments: &[
                entry(member, label)?,
                alive.as_micros().to_string(),
                MEMBERS.to_string(),
            ],
        };
        let (now, hosts, oldest, revision): (i64, i64, i64, i64) = self.call(&call).await?;
        let time = |us: i64| u64::try_from(us).ok().filter(|us| *us <= MOST);
        let hosts = u32::try_from(hosts).ok();
        match (time(now), hosts, time(oldest), time(revision)) {
            (Some(now), Some(hosts), Some(oldest), Some(revision)) => Ok(Beat {
                now: Duration::from_micros(now),
                hosts: hosts.clamp(1, 10_000),
                oldest: Duration::from_micros(oldest),
                revision,
            }),
            _ => Err(self.garbled("a number that is too large or below 0")),
        }
    }

    /// Says that a member has gone, so that nobody waits for it, nor compares his limits with those it held.
    ///
    /// # Errors
    /// As [`Self::exchange`].
    pub async fn leave(
        &mut self,
        fleet: &str,
        member: u64,
        label: &str,
        held: &[Held],
    ) -> Result<(), Error> {
        let fleet = names::name(fleet)?;
        let mut command = redis::cmd("ZREM");
        command
            .arg(names::members(fleet))
            .arg(entry(member, label)?);
        self.ask::<i64>(&command).await?;
        self.unhold(fleet, held).await
    }

    /// The members that were heard of last, up to a thousand; `now` is of a [`Beat`]. What is no member is left out.
    ///
    /// # Errors
    /// As [`Self::exchange`].
    pub async fn members(&mut self, fleet: &str, now: Duration) -> Result<Vec<Present>, Error> {
        let call = Call {
            script: &LIST_SCRIPT,
            source: LIST,
            keys: &[names::members(names::name(fleet)?)],
            arguments: &[LISTED.to_string()],
        };
        let all: Vec<Vec<u8>> = self.call(&call).await?;
        let present = all.chunks_exact(2).filter_map(|pair| {
            let (member, label) = parsed(std::str::from_utf8(&pair[0]).ok()?)?;
            let heard: f64 = std::str::from_utf8(&pair[1]).ok()?.parse().ok()?;
            let age = Duration::try_from_secs_f64((now.as_secs_f64() - heard / 1e6).max(0.0));
            Some(Present {
                member,
                label: label.to_owned(),
                age: age.ok()?,
            })
        });
        Ok(present.collect())
    }
}

fn entry(member: u64, text: &str) -> Result<String, Error> {
    Ok(format!("{member:016x} {}", label(text)?))
}

fn parsed(entry: &str) -> Option<(u64, &str)> {
    let (member, label) = entry.split_once(' ')?;
    let is_id = member.len() == 16 && member.bytes().all(|byte| byte.is_ascii_hexdigit());
    let member = u64::from_str_radix(member, 16).ok().filter(|_| is_id)?;
    is_label(label).then_some((member, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_member_is_none() {
        let written = entry(0xab, "host/eth0").unwrap();
        assert_eq!(parsed(&written), Some((0xab, "host/eth0")));
        for bad in [
            "",
            "ab host",
            "00000000000000ab",
            "00000000000000ab ",
            "00000000000000ab \u{1b}[31m",
            "+0000000000000ab host",
            &format!("00000000000000ab {}", "x".repeat(129)),
        ] {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
        assert!(entry(1, "a\nb").is_err());
    }
}
