//! `limiter feed`: the bans of attachments as those of a feed. The feed itself is in limiter-feed.
//!
//! The process that talks to the network has no privileges. Its helper process ([`crate::helper`]) reads and changes
//! the bans for it, in the functions here.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use limiter_common::abi::Ban;
use limiter_feed::{Edit, Found, Host, Others, Own, Protected, State, Wanted, difference};
use limiter_fleet::host::BANS;
use serde::de::DeserializeOwned;

use crate::{
    agent::BY_FLEET,
    helper::{Channel, Question},
    kernel::{Attachment, Error, Result, program::bans, sys::clock},
    observe::feeds,
    protected,
};

/// Origins of bans that are not those of feeds. A part of the room for bans is theirs.
pub const NO_FEEDS: [&str; 3] = ["hand", "fail2ban", BY_FLEET];

/// Milliseconds by which the end of a fleet's ban may differ between hosts: each reads it over the network.
const END_TOLERANCE: u64 = 1_000;

/// The bans of a feed's origin, as its helper process reads and changes them.
#[derive(Debug)]
pub struct Bans {
    /// The origin.
    origin: String,
    /// The addresses of the fleet's store when they were known last.
    store: Vec<IpAddr>,
    /// The addresses that the host needed when the bans were read last.
    protected: Option<Protected>,
}

impl Bans {
    /// The bans of `origin`.
    pub fn of(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            store: Vec::new(),
            protected: None,
        }
    }

    /// Reads the bans. `interfaces`: their names; empty: all.
    pub async fn own(&mut self, interfaces: Vec<String>) -> Result<Found, String> {
        let text = |error: Error| error.to_string();
        let protected = protected::with_store(&mut self.store).await.map_err(text)?;
        self.protected = Some(protected.clone());
        let read = |attachment: &Attachment| own_on(attachment, &self.origin);
        let mut all = Vec::new();
        if interfaces.is_empty() {
            let (attachments, errors) = Attachment::all().await.map_err(text)?;
            let own = |it: &Attachment| (it.interface.name.clone(), read(it).map_err(text));
            all.extend(attachments.iter().map(own));
            let failed = |error| (String::new(), Err(text(error)));
            all.extend(errors.into_iter().map(failed));
        }
        for name in interfaces {
            let own = Attachment::open(&name).await.and_then(|it| read(&it));
            all.push((name, own.map_err(text)));
        }
        Ok(Found {
            own: all,
            protected,
        })
    }

    /// The prefixes that bans of other origins have on an interface.
    pub async fn others(&self, interface: &str) -> Result<Vec<IpNet>> {
        let attachment = Attachment::open(interface).await?;
        let mut bans = attachment.bans.at(clock::now()?)?;
        bans.retain(|(_, ban)| bans::text(&ban.origin) != self.origin);
        Ok(bans.into_iter().map(|(prefix, _)| prefix).collect())
    }

    /// Changes the bans on an interface.
    pub async fn change(&mut self, interface: &str, edit: Edit) -> Result<Others> {
        let protected = match self.protected.take() {
            Some(protected) => protected,
            None => protected::with_store(&mut self.store).await?,
        };
        let protected = self.protected.insert(protected);
        change(interface, &self.origin, edit, protected).await
    }

    /// Forgets the state of the feed, which was told to end.
    pub fn forget(&self) {
        let _ = feeds::remove(&self.origin);
    }
}

/// The bans of `origin` on an attachment, and the room for more.
fn own_on(attachment: &Attachment, origin: &str) -> Result<(Own, u64)> {
    let now = clock::now()?;
    let mut bans = attachment.bans.at(now)?;
    let most = most_with(attachment.record.settings.max_bans, &bans);
    let room = most.saturating_sub(bans.len() as u64);
    bans.retain(|(_, ban)| bans::text(&ban.origin) == origin);
    let left = |until: u64| match until {
        0 => u64::MAX,
        until => until.saturating_sub(now) / 1_000_000,
    };
    let bans = bans.iter().map(|(prefix, ban)| (*prefix, left(ban.until)));
    Ok((bans.collect(), room))
}

/// The part of the room for bans that feeds leave to other origins: a sixteenth, at least 64; of less than 128, half.
fn kept_for_others(max_bans: u32) -> u64 {
    u64::from((max_bans / 16).max(64.min(max_bans.div_ceil(2))))
}

/// The most bans that there may be after a feed has added some to `bans`.
fn most_with(max_bans: u32, bans: &[(IpNet, Ban)]) -> u64 {
    let origins = bans.iter().map(|(_, ban)| bans::text(&ban.origin));
    let others = origins.filter(|origin| NO_FEEDS.contains(&&**origin));
    let others = others.count() as u64;
    (u64::from(max_bans) + others).saturating_sub(kept_for_others(max_bans).max(others))
}

/// Brings the bans of a fleet's `origin` on an interface to the wanted ones, without those that cover protected addresses.
/// Returns a line about these.
pub async fn bring(interface: &str, origin: &str, mut wanted: Wanted) -> Result<Option<String>> {
    let attachment = Attachment::open(interface).await?;
    // The agent itself leaves out what covers the store.
    let protected = protected::here().await?;
    let covering = protected.covering(wanted.keys());
    wanted.retain(|prefix, _| !covering.contains(prefix));
    let first = covering.first().and_then(|first| protected.words(first));
    let more = covering.len().saturating_sub(1);
    let left_out = first.map(|first| match more {
        0 => format!("1 ban of the fleet is not in force here: {first}"),
        more => format!(
            "{} bans of the fleet are not in force here: {first}, and {more} more",
            more + 1
        ),
    });
    let edit = difference(&own_on(&attachment, origin)?.0, &wanted, |_| END_TOLERANCE);
    // The agent may not know yet that the host has ceased to share bans, which it then keeps.
    if !attachment.record.settings.shares(BANS) || edit.0.is_empty() && edit.1.is_empty() {
        return Ok(left_out);
    }
    change(interface, origin, edit, &protected).await?;
    Ok(left_out)
}

/// Changes the bans of `origin` on an interface.
async fn change(
    interface: &str,
    origin: &str,
    (add, remove): Edit,
    protected: &Protected,
) -> Result<Others> {
    let (mut attachment, _lock) = Attachment::open_locked(interface).await?;
    let now = clock::now()?;
    let mut bans = BTreeMap::new();
    let mut others = Others::default();
    for (prefix, left, reason) in add {
        // The other process has no privileges, and may be taken over.
        limiter_feed::bannable(&prefix).map_err(Error::Refused)?;
        let prefix = prefix.trunc();
        if let Some(words) = protected.words(&prefix) {
            return Err(Error::Refused(format!("{words}, so it must not be banned")));
        }
        let until = match left {
            u64::MAX => 0,
            left => now.saturating_add(left.saturating_mul(1_000_000)),
        };
        let ban = bans::ban(&prefix, until, origin, &reason)?;
        // People make the bans of a fleet: like those by hand, they take the place of others.
        if origin == BY_FLEET || !attachment.bans.is_of_another(&prefix, &ban, now)? {
            bans.insert(prefix, ban);
        } else {
            others = (others.0 + 1, others.1.or(Some(prefix)));
        }
    }
    let mut own = Vec::new();
    for prefix in remove {
        let ban = attachment.bans.get(&prefix)?;
        if ban.is_some_and(|ban| bans::text(&ban.origin) == origin) {
            own.push(prefix);
        }
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
    attachment.bans.remove(&own, now)?;
    attachment.bans.add(&bans, most, now)?;
    Ok(others)
}

/// The attachments of this network namespace, through the helper process.
#[derive(Debug)]
pub struct Here {
    /// The helper process, which changes the bans of the feed's origin.
    pub helper: Channel,
    /// True if the helper process has ended.
    pub is_gone: bool,
    /// The file of the feed's state.
    pub state: feeds::File,
}

impl Here {
    /// Forgets the state of a feed that was told to end. The helper process removes the file.
    pub async fn forget(&mut self) {
        self.state.empty();
        let _ = self.ask::<()>(Question::Forget).await;
    }

    async fn ask<A: DeserializeOwned>(&mut self, question: Question) -> Result<A, String> {
        let answer = self.helper.ask::<Result<A, String>>(&question).await;
        self.is_gone |= answer.is_err();
        answer.map_err(|error| {
            format!("the helper process has ended ({error}): start limiter again")
        })?
    }
}

impl Host for Here {
    async fn own(&mut self, interfaces: &[String]) -> Result<Found, String> {
        self.ask(Question::Bans(interfaces.to_vec())).await
    }

    async fn others(&mut self, interface: &str) -> Result<Vec<IpNet>, String> {
        self.ask(Question::Others(interface.to_owned())).await
    }

    async fn change(&mut self, interface: &str, edit: Edit) -> Result<Others, String> {
        self.ask(Question::Change(interface.to_owned(), edit)).await
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn report(&mut self, state: &State) {
        // Without it, `status` shows an older state.
        let _ = self.state.write(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(origin: &str, count: u32) -> Vec<(IpNet, Ban)> {
        let ban = |number: u32| {
            let prefix = IpNet::from(IpAddr::from(number.to_be_bytes()));
            let made = bans::ban(&prefix, 0, origin, "").expect("valid");
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
            (65, 33),
            (128, 64),
            (1_024, 64),
            (65_536, 4_096),
        ] {
            assert_eq!(kept_for_others(max_bans), kept, "{max_bans}");
            assert_eq!(most_with(max_bans, &[]), u64::from(max_bans) - kept);
            let feed = of("drop", max_bans.min(9));
            assert_eq!(most_with(max_bans, &feed), u64::from(max_bans) - kept);
        }
        // Those by hand take from what is kept for them first.
        for (by_hand, most) in [(0, 960), (10, 970), (64, 1_024), (100, 1_024)] {
            for origin in ["hand", "fail2ban", "fleet"] {
                assert_eq!(most_with(1_024, &of(origin, by_hand)), most, "{by_hand}");
            }
        }
    }
}
