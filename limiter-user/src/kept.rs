//! Bans of `limiter ban` in a file, for `attach`: they outlive `detach`, another version of limiter and a restart of the
//! host, if `keep_bans` is set.
//!
//! The command that changes bans writes the file, with the attachment's lock, from the bans in force. It is on the disk when
//! the command returns. Ends in the file are of the wall clock, which may be wrong: the file has the time at which it was
//! written too, and no ban comes back with more time than it had then. A clock that is behind that time counts as standing
//! still.

use std::{
    io::Read as _,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, anyhow, bail};
use limiter_config::{
    Settings,
    lists::{prefix, show},
};
use limiter_kernel::{
    Attachment,
    ops::bans::{Kept, is_kept},
    program::bans::text,
    sys::clock,
};
use serde::{Deserialize, Serialize};

use crate::{
    files::{Folder, Place, name_of},
    show::units::counted,
};

/// The most bans in a file.
const MOST: usize = 100_000;
/// The longest file that is read, in bytes.
const LONGEST: u64 = 64 << 20;
/// The version of the file's format.
const VERSION: u32 = 1;

/// The file of an attachment.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stored {
    version: u32,
    interface: String,
    /// Seconds since 1970.
    written: u64,
    bans: Vec<StoredBan>,
}

/// A ban, with times in seconds since 1970.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredBan {
    prefix: String,
    until: Option<u64>,
    made: u64,
    origin: String,
    reason: String,
}

/// The bans of a file.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// Bans that have not ended.
    pub bans: Vec<Kept>,
    /// The number of bans that have ended since.
    pub ended: usize,
    /// The number of entries that are no bans.
    pub wrong: usize,
    /// The file.
    pub path: PathBuf,
}

fn place() -> Result<Place> {
    Place::lasting("bans")
}

/// The name of an interface's file.
fn file_name(interface: &str) -> Result<String> {
    Ok(format!("{}.json", name_of(interface)?))
}

/// Seconds since 1970.
fn wall() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// Reads the file of an interface. None if there is none.
pub fn read(interface: &str) -> Result<Option<Found>> {
    let Some(folder) = place()?.open()? else {
        return Ok(None);
    };
    let name = file_name(interface)?;
    let path = folder.path_of(&name);
    let stored = stored(&folder, &name, interface);
    let stored = stored.with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(stored.map(|stored| Found {
        path,
        ..found(&stored, wall())
    }))
}

fn stored(folder: &Folder, name: &str, interface: &str) -> Result<Option<Stored>> {
    let file = match folder.read(name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    let stored: Stored = serde_json::from_slice(&text)?;
    if stored.version != VERSION {
        bail!("it is of another version of limiter");
    }
    if stored.interface != interface {
        bail!("it is of the interface {}", stored.interface);
    }
    Ok(Some(stored))
}

/// The bans of a file at `now`, in seconds since 1970.
fn found(stored: &Stored, now: u64) -> Found {
    let now = now.max(stored.written);
    let mut found = Found::default();
    for ban in stored.bans.iter().take(MOST) {
        if ban.until.is_some_and(|until| until <= now) {
            found.ended += 1;
            continue;
        }
        match kept(ban, now) {
            Some(kept) => found.bans.push(kept),
            None => found.wrong += 1,
        }
    }
    found
}

/// The ban of an entry; none if `limiter ban` would not make it.
fn kept(ban: &StoredBan, now: u64) -> Option<Kept> {
    let net = prefix(&ban.prefix).ok()?;
    let kept = Kept {
        prefix: net,
        left: ban.until.map(|until| Duration::from_secs(until - now)),
        age: Duration::from_secs(now.saturating_sub(ban.made)),
        origin: ban.origin.clone(),
        reason: ban.reason.clone(),
    };
    let is_right = net.trunc() == net
        && limiter_feed::bannable(&net).is_ok()
        && is_kept(&ban.origin)
        && kept.ban(0).is_ok();
    is_right.then_some(kept)
}

/// Writes the bans of an attachment to its file, if its settings say so. The caller holds the attachment's lock. Returns
/// what was left out.
pub fn write(attachment: &Attachment) -> Result<Option<String>> {
    if !attachment.record.settings.keep_bans {
        return Ok(None);
    }
    let (interface, now) = (&attachment.interface.name, clock::now()?);
    let mut bans = attachment.bans.at(now)?;
    bans.retain(|(_, ban)| ban.is_kept != 0);
    bans.sort_unstable_by_key(|(prefix, ban)| (*prefix, ban.origin));
    let left_out = bans.len().saturating_sub(MOST);
    bans.truncate(MOST);
    let (folder, name) = (place()?.make()?, file_name(interface)?);
    if bans.is_empty() {
        folder.remove(&name)?;
        return Ok(None);
    }
    // The time of the file never goes back: a clock that is not set yet would end bans early once it is.
    let before = stored(&folder, &name, interface).ok().flatten();
    let written = before.map_or(0, |before| before.written).max(wall());
    let seconds = |nanoseconds: u64| nanoseconds / 1_000_000_000;
    let bans = bans.into_iter().map(|(prefix, ban)| StoredBan {
        prefix: show(&prefix),
        until: match ban.ends.until {
            0 => None,
            // A started second counts.
            until => Some(written + seconds(until.saturating_sub(now)) + 1),
        },
        made: written.saturating_sub(seconds(now.saturating_sub(ban.made))),
        origin: text(&ban.origin),
        reason: text(&ban.reason),
    });
    let stored = Stored {
        version: VERSION,
        interface: interface.clone(),
        written,
        bans: bans.collect(),
    };
    folder.replace(&name, &serde_json::to_vec(&stored)?)?;
    let left_out = (left_out > 0)
        .then(|| format!("{left_out} bans of {interface} are not kept: a file has {MOST} at most"));
    Ok(left_out)
}

/// Writes the bans after a change of them, which is in force. Returns what was left out.
pub fn write_change(attachment: &Attachment) -> Result<Option<String>> {
    let interface = &attachment.interface.name;
    write(attachment).map_err(|error| {
        anyhow!("the bans of {interface} are changed, but not kept for a restart: {error:#}")
    })
}

/// Writes the file of an interface whose settings have changed, or removes it.
pub async fn follow(interface: &str) -> Result<Option<String>> {
    let (attachment, _lock) = Attachment::open_locked(interface).await?;
    if attachment.record.settings.keep_bans {
        return write_change(&attachment);
    }
    if let Some(folder) = place()?.open()? {
        folder.remove(&file_name(interface)?)?;
    }
    Ok(None)
}

impl Found {
    /// Drops the bans that end first, if there is room for `most` alone. Returns the number of dropped ones.
    fn fit(&mut self, most: u32) -> usize {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let dropped = self.bans.len().saturating_sub(most);
        if dropped > 0 {
            let end = |kept: &Kept| kept.left.unwrap_or(Duration::MAX);
            self.bans.sort_by_key(|kept| std::cmp::Reverse(end(kept)));
            self.bans.truncate(most);
        }
        dropped
    }

    /// A line about the bans for `attach` with these settings, which gets [`Self::bans`]. None if there is nothing to say.
    pub fn for_attach(&mut self, settings: &Settings) -> Option<String> {
        let path = self.path.display().to_string();
        let is = |count: usize| if count == 1 { "is" } else { "are" };
        if !settings.keep_bans {
            let count = std::mem::take(&mut self.bans).len();
            let bans = counted(count as u64, "ban");
            return (count > 0).then(|| {
                format!(
                    "{bans} from before {} in {path}, and not in force: --keep-bans, or keep_bans = true in the configuration, brings them back",
                    is(count)
                )
            });
        }
        let no_room = self.fit(settings.max_bans);
        let mut parts = Vec::new();
        for (count, words) in [
            (self.bans.len(), "in force again"),
            (self.ended, "over meanwhile"),
            (no_room, "left out without room (--max-bans)"),
            (self.wrong, "left out, because they are no valid bans"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {} {words}", is(count)));
            }
        }
        (!parts.is_empty()).then(|| format!("bans of {path}: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(prefix: &str, until: Option<u64>) -> StoredBan {
        StoredBan {
            prefix: prefix.to_owned(),
            until,
            made: 900,
            origin: "hand".to_owned(),
            reason: "scan".to_owned(),
        }
    }

    fn file(bans: Vec<StoredBan>) -> Stored {
        Stored {
            version: VERSION,
            interface: "eth0".to_owned(),
            written: 1_000,
            bans,
        }
    }

    #[test]
    fn bans_come_back_for_the_rest_of_their_time_and_never_for_more_than_they_had() {
        let file = file(vec![
            ban("192.0.2.7", Some(1_060)),
            ban("2001:db8::/48", None),
        ]);
        let left = |now| {
            let found = found(&file, now);
            let left = found
                .bans
                .iter()
                .map(|kept| kept.left.map(|left| left.as_secs()));
            (left.collect::<Vec<_>>(), found.ended)
        };
        assert_eq!(left(1_010), (vec![Some(50), None], 0));
        assert_eq!(left(1_060), (vec![None], 1));
        // The clock is behind: it was not set yet, or set back.
        assert_eq!(left(7), (vec![Some(60), None], 0));
        assert_eq!(left(u64::MAX), (vec![None], 1));
    }

    #[test]
    fn entries_that_ban_would_refuse_are_left_out_and_counted() {
        let mut entries = vec![ban("192.0.2.7", None)];
        for prefix in ["0.0.0.0/0", "192.0.2.7/24", "x", "::ffff:0.0.0.0/96"] {
            entries.push(ban(prefix, None));
        }
        let (of_jail, long) = (ban("192.0.2.8", None), ban("192.0.2.9", None));
        entries.push(StoredBan {
            origin: "fail2ban:sshd".to_owned(),
            ..of_jail
        });
        entries.push(StoredBan {
            reason: "x".repeat(41),
            ..long
        });
        let found = found(&file(entries), 1_000);
        assert_eq!((found.bans.len(), found.wrong, found.ended), (1, 6, 0));
        assert_eq!(found.bans[0].age, Duration::from_secs(100));
    }
}
