//! `limiter feed`: the bans of attachments as those of a feed. The feed itself is in limiter-feed.
//!
//! The process that talks to the network has no privileges. Its helper process ([`crate::helper`]) reads and changes
//! the bans for it, in the functions here.

use std::collections::BTreeMap;

use limiter_feed::{Edit, Host, Own, OwnBy, State, Wanted, difference};
use limiter_fleet::host::BANS;
use serde::de::DeserializeOwned;

use crate::{
    agent::BY_FLEET,
    helper::{Channel, Question},
    kernel::{Attachment, Error, Result, program::bans, sys::clock},
    observe::feeds,
};

/// Milliseconds by which the end of a fleet's ban may differ between hosts: each reads it over the network.
const END_TOLERANCE: u64 = 1_000;

/// Reads the bans of `origin`, in the helper process. `interfaces`: their names; empty: all.
pub async fn own(origin: &str, interfaces: Vec<String>) -> Result<OwnBy, String> {
    let read = |attachment: &Attachment| own_on(attachment, origin);
    let text = |error: Error| error.to_string();
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
    Ok(all)
}

/// The bans of `origin` on an attachment, and the room for more.
fn own_on(attachment: &Attachment, origin: &str) -> Result<(Own, u64)> {
    let now = clock::now()?;
    let mut bans = attachment.bans.at(now)?;
    let most = u64::from(attachment.record.settings.max_bans);
    let room = most.saturating_sub(bans.len() as u64);
    bans.retain(|(_, ban)| bans::text(&ban.origin) == origin);
    let left = |until: u64| match until {
        0 => u64::MAX,
        until => until.saturating_sub(now) / 1_000_000,
    };
    let bans = bans.iter().map(|(prefix, ban)| (*prefix, left(ban.until)));
    Ok((bans.collect(), room))
}

/// Brings the bans of a fleet's `origin` on an interface to the wanted ones.
pub async fn bring(interface: &str, origin: &str, wanted: &Wanted) -> Result<()> {
    let attachment = Attachment::open(interface).await?;
    let edit = difference(&own_on(&attachment, origin)?.0, wanted, |_| END_TOLERANCE);
    // The agent may not know yet that the host has ceased to share bans, which it then keeps.
    if !attachment.record.settings.shares(BANS) || edit.0.is_empty() && edit.1.is_empty() {
        return Ok(());
    }
    change(interface, origin, edit).await
}

/// Changes the bans of `origin` on an interface, in the helper process.
pub async fn change(interface: &str, origin: &str, (add, remove): Edit) -> Result<()> {
    let (mut attachment, _lock) = Attachment::open_locked(interface).await?;
    let now = clock::now()?;
    let mut bans = BTreeMap::new();
    for (prefix, left, reason) in add {
        // The other process has no privileges, and may be taken over.
        limiter_feed::bannable(&prefix).map_err(Error::Refused)?;
        let prefix = prefix.trunc();
        let until = match left {
            u64::MAX => 0,
            left => now.saturating_add(left.saturating_mul(1_000_000)),
        };
        let ban = bans::ban(&prefix, until, origin, &reason)?;
        // People make the bans of a fleet: like those by hand, they take the place of others.
        if origin == BY_FLEET || !attachment.bans.is_of_another(&prefix, &ban, now)? {
            bans.insert(prefix, ban);
        }
    }
    let mut own = Vec::new();
    for prefix in remove {
        let ban = attachment.bans.get(&prefix)?;
        if ban.is_some_and(|ban| bans::text(&ban.origin) == origin) {
            own.push(prefix);
        }
    }
    attachment.bans.remove(&own, now)?;
    let most = attachment.record.settings.max_bans;
    attachment.bans.add(&bans, most, now).map(drop)
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
    async fn own(&mut self, interfaces: &[String]) -> Result<OwnBy, String> {
        self.ask(Question::Bans(interfaces.to_vec())).await
    }

    async fn change(&mut self, interface: &str, edit: Edit) -> Result<(), String> {
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
