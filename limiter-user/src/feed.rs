//! `limiter feed`: the bans of attachments as those of a feed. The feed itself is in limiter-feed.
//!
//! The process that talks to the network has no privileges. Its helper process ([`crate::helper`]) reads and changes
//! the bans for it, in the functions here.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    net::IpAddr,
};

use ipnet::IpNet;
use limiter_config::{bans::Edit, lists::BANS};
use limiter_feed::{Found, Host, Present, Protected, State, Wanted, bannable, difference};
use limiter_kernel::{Attachment, Error, Result, ops, sys::interface};
use serde::de::DeserializeOwned;

use crate::{
    helper::{Channel, Question},
    observe::feeds,
    protected,
};

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
    /// The networks on the allow list of each program, which does not change while the program runs.
    allowed: HashMap<u32, Vec<IpNet>>,
}

impl Bans {
    /// The bans of `origin`.
    pub fn of(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            store: Vec::new(),
            protected: None,
            allowed: HashMap::new(),
        }
    }

    /// Reads the bans. `interfaces`: their names; empty: all.
    pub async fn own(&mut self, interfaces: Vec<String>) -> Result<Found, String> {
        let text = |error: Error| error.to_string();
        let protected = protected::with_store(&mut self.store).await.map_err(text)?;
        self.protected = Some(protected.clone());
        let (mut known, origin) = (mem::take(&mut self.allowed), &self.origin);
        let all_allowed = &mut self.allowed;
        let mut read = |attachment: &Attachment| {
            let (own, room) = ops::bans::of(attachment, origin)?;
            let allowed = match known.remove(&attachment.program_id) {
                Some(allowed) => allowed,
                None => ops::bans::allowed(attachment)?,
            };
            all_allowed.insert(attachment.program_id, allowed.clone());
            Ok(Present {
                own,
                room,
                allowed,
                has_throttle: ops::bans::has_throttle(attachment),
            })
        };
        let mut all = Vec::new();
        if interfaces.is_empty() {
            let (attachments, errors) = Attachment::all().await.map_err(text)?;
            for attachment in &attachments {
                let name = attachment.interface.name.clone();
                all.push((name, read(attachment).map_err(text)));
            }
            let failed = |error| (String::new(), Err(text(error)));
            all.extend(errors.into_iter().map(failed));
        }
        for name in interfaces {
            let name = interface::real_name(&name).await;
            let own = Attachment::open(&name)
                .await
                .and_then(|attachment| read(&attachment));
            all.push((name, own.map_err(text)));
        }
        Ok(Found {
            own: all,
            protected,
        })
    }

    /// Changes the bans on an interface.
    pub async fn change(&mut self, interface: &str, edit: Edit) -> Result<()> {
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

/// Changes the bans of `origin` on an interface, but makes none that covers a protected address.
async fn change(interface: &str, origin: &str, edit: Edit, protected: &Protected) -> Result<()> {
    // The other process has no privileges, and may be taken over.
    let refuse = |prefix: &IpNet| {
        let covers = || {
            Some(format!(
                "{}, so it must not be banned",
                protected.words(&prefix.trunc())?
            ))
        };
        bannable(prefix).err().or_else(covers)
    };
    ops::bans::change(interface, origin, edit, refuse).await
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
    let is_right = |left: u64, wanted: u64| left.abs_diff(wanted) < END_TOLERANCE;
    let own = ops::bans::of(&attachment, origin)?.0;
    let edit = difference(&own, &wanted, &BTreeSet::new(), is_right);
    // The agent may not know yet that the host has ceased to share bans, which it then keeps.
    if !attachment.record.settings.shares(BANS) || edit.is_empty() {
        return Ok(left_out);
    }
    change(interface, origin, edit, &protected).await?;
    Ok(left_out)
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
