//! The bans of one origin: those of an attachment, and changes.

use std::time::Duration;

use ipnet::IpNet;
use limiter_common::abi::{Ban, rules::ON_ALLOW};
use limiter_config::{
    Destination,
    bans::{Edit, Own, OwnBan},
    lists::THROTTLED,
};

use crate::{
    Attachment, Error, Result,
    program::{Program, bans},
    sys::clock,
};

/// The origin of the bans that all hosts of a fleet have.
pub const BY_FLEET: &str = "fleet";

/// Origins of bans that are not those of feeds. A part of the room for bans is theirs.
pub const NO_FEEDS: [&str; 3] = ["hand", "fail2ban", BY_FLEET];

/// Begins the origin of each jail's bans, so that one jail neither shortens nor ends the ban of another.
pub const BY_JAIL: &str = "fail2ban:";

/// True if bans of this origin are not those of a feed.
pub fn is_no_feed(origin: &str) -> bool {
    NO_FEEDS.contains(&origin) || origin.starts_with(BY_JAIL)
}

/// True if `limiter ban` makes bans of this origin that nothing makes again after a restart: fail2ban does, from its own
/// database.
pub fn is_kept(origin: &str) -> bool {
    origin != "fail2ban" && !origin.starts_with(BY_JAIL)
}

/// A ban that was in force before `attach`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The prefix.
    pub prefix: IpNet,
    /// The time until it ends; none: it has no end.
    pub left: Option<Duration>,
    /// The time since it was made or last renewed.
    pub age: Duration,
    /// The origin.
    pub origin: String,
    /// The reason.
    pub reason: String,
}

impl Kept {
    /// The ban at `now`, in nanoseconds of the kernel's clock.
    pub fn ban(&self, now: u64) -> Result<Ban> {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let until = self
            .left
            .map_or(0, |left| now.saturating_add(nanoseconds(left)));
        let made = now.saturating_sub(nanoseconds(self.age));
        Ok(Ban {
            is_kept: 1,
            ..bans::ban(until, made, &self.origin, &self.reason)?
        })
    }
}

/// Writes bans into the maps of a new program, which has room for `most`.
pub(super) fn restore(program: &Program, kept: &[Kept], most: u32) -> Result<()> {
    if kept.is_empty() {
        return Ok(());
    }
    let now = clock::now()?;
    let ban = |kept: &Kept| Ok((kept.prefix, kept.ban(now)?));
    let all = kept.iter().map(ban).collect::<Result<Vec<_>>>()?;
    program.bans()?.add(&all, most, now)?;
    Ok(())
}

/// The bans of `origin` on an attachment, and the room for more.
pub fn of(attachment: &Attachment, origin: &str) -> Result<(Own, u64)> {
    let now = clock::now()?;
    let mut bans = attachment.bans.at(now)?;
    let most = most_with(attachment.record.settings.max_bans, &bans);
    let room = most.saturating_sub(bans.len() as u64);
    bans.retain(|(_, ban)| bans::text(&ban.origin) == origin);
    let left = |until: u64| match until {
        0 => u64::MAX,
        until => until.saturating_sub(now) / 1_000_000,
    };
    let own = bans.iter().map(|(prefix, ban)| {
        let own = OwnBan {
            left: left(ban.ends.until),
            is_throttle: ban.is_throttle != 0,
        };
        (*prefix, own)
    });
    Ok((own.collect(), room))
}

/// The networks on the allow list, which bans of programs do not drop.
pub fn allowed(attachment: &Attachment) -> Result<Vec<IpNet>> {
    let listed = attachment.lists.prefixes()?;
    let allowed = listed.iter().filter(|(_, own)| own & ON_ALLOW != 0);
    Ok(allowed.flat_map(|(prefixes, _)| prefixes).collect())
}

/// True if a limit of the attachment is about throttled sources.
pub fn has_throttle(attachment: &Attachment) -> bool {
    let throttled = Destination::List(THROTTLED.to_owned());
    let mut limits = attachment.record.settings.limits.iter();
    limits.any(|limit| limit.matches.source.contains(&throttled))
}

/// The part of the room for bans that feeds leave to other origins: a sixteenth, at least 64; of less than 128, a tenth.
fn kept_for_others(max_bans: u32) -> u64 {
    u64::from(match max_bans {
        0..128 => max_bans.div_ceil(10),
        _ => (max_bans / 16).max(64),
    })
}

/// The most bans that there may be after a feed has added some to `bans`.
fn most_with(max_bans: u32, bans: &[(IpNet, Ban)]) -> u64 {
    let origins = bans.iter().map(|(_, ban)| bans::text(&ban.origin));
    let others = origins.filter(|origin| is_no_feed(origin));
    let others = others.count() as u64;
    (u64::from(max_bans) + others).saturating_sub(kept_for_others(max_bans).max(others))
}

/// Changes the bans of `origin` on an interface. Those of other origins stay as they are.
/// Fails if `refuse` has a reason against one of them.
pub async fn change(
    interface: &str,
    origin: &str,
    edit: Edit,
    refuse: impl Fn(&IpNet) -> Option<String>,
) -> Result<()> {
    let (mut attachment, _lock) = Attachment::open_locked(interface).await?;
    let now = clock::now()?;
    let mut bans = Vec::new();
    for wish in edit.add {
        if let Some(why) = refuse(&wish.prefix) {
            return Err(Error::Refused(why));
        }
        let until = match wish.ban.left {
            u64::MAX => 0,
            left => now.saturating_add(left.saturating_mul(1_000_000)),
        };
        let ban = Ban {
            is_throttle: wish.ban.is_throttle.into(),
            ..bans::ban(until, now, origin, &wish.reason)?
        };
        bans.push((wish.prefix.trunc(), ban));
    }
    let max_bans = attachment.record.settings.max_bans;
    let most = match origin {
        BY_FLEET => max_bans,
        _ => {
            // A feed that has more than its part may still renew and replace its bans.
            let all = attachment.bans.at(now)?;
            let most = most_with(max_bans, &all).max(all.len() as u64);
            u32::try_from(most).unwrap_or(max_bans).min(max_bans)
        }
    };
    let own = bans::ban(0, now, origin, "")?.origin;
    let remove = edit
        .remove
        .into_iter()
        .map(|prefix| (prefix, own))
        .collect();
    attachment.bans.remove(&remove, now)?;
    attachment.bans.add(&bans, most, now)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn made_by(origin: &str, count: u32) -> Vec<(IpNet, Ban)> {
        let ban = |number: u32| {
            let prefix = IpNet::from(IpAddr::from(number.to_be_bytes()));
            let made = bans::ban(0, 0, origin, "").expect("valid");
            (prefix, made)
        };
        (0..count).map(ban).collect()
    }

    #[test]
    fn feeds_leave_room_for_bans_by_hand() {
        for (max_bans, kept) in [
            (0, 0),
            (1, 1),
            (2, 1),
            (65, 7),
            (100, 10),
            (128, 64),
            (1_024, 64),
            (65_536, 4_096),
        ] {
            assert_eq!(kept_for_others(max_bans), kept, "{max_bans}");
            assert_eq!(most_with(max_bans, &[]), u64::from(max_bans) - kept);
            let feed = made_by("drop", max_bans.min(9));
            assert_eq!(most_with(max_bans, &feed), u64::from(max_bans) - kept);
        }
        // Those by hand take from what is kept for them first.
        for (by_hand, most) in [(0, 960), (10, 970), (64, 1_024), (100, 1_024)] {
            for origin in ["hand", "fail2ban", "fail2ban:sshd", "fleet"] {
                assert_eq!(
                    most_with(1_024, &made_by(origin, by_hand)),
                    most,
                    "{by_hand}"
                );
            }
        }
    }
}
