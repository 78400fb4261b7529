//! The rounds of a feed.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    Settings,
    parse::Decisions,
    source::{Fetched, Source, Wanted},
};

/// Bounds of the time from a failed round to the next.
const SOON: Duration = Duration::from_secs(5);
const LATER: Duration = Duration::from_secs(60);

/// The longest error, in characters.
const LINE: usize = 400;

/// Bans per change, so that other commands need not wait long for the attachment's lock.
const AT_ONCE: usize = 5_000;

/// Bans that a list may change in a round, whatever `max-change` is.
const FEW: usize = 100;

/// The bans of a feed's origin on an interface, with the milliseconds until they end.
pub type Own = HashMap<IpNet, u64>;

/// The own bans and the room for more by interface, or why they cannot be read.
pub type OwnBy = Vec<(String, Result<(Own, u64), String>)>;

/// A ban to add or renew: its prefix, milliseconds until it ends, and its reason.
pub type Wish = (IpNet, u64, String);

/// A change of bans: those to add or renew, and those to remove.
pub type Edit = (Vec<Wish>, Vec<IpNet>);

/// The change from a feed's `own` bans to the `wanted` ones. A ban is renewed if its end is wrong by `tolerance` of the
/// time that is left, in milliseconds, or more.
pub fn difference(own: &Own, wanted: &Wanted, tolerance: impl Fn(u64) -> u64) -> Edit {
    let now = Instant::now();
    let left = |ends: Option<Instant>| {
        let left = ends.map(|ends| ends.saturating_duration_since(now).as_millis());
        left.and_then(|left| left.try_into().ok())
            .unwrap_or(u64::MAX)
    };
    let wishes = wanted.iter();
    let wishes = wishes.map(|(prefix, (ends, reason))| (*prefix, left(*ends), reason));
    let add = wishes.filter(|(prefix, left, _)| {
        let own = own.get(prefix);
        own.is_none_or(|own| own.abs_diff(*left) >= tolerance(*left))
    });
    let add = add.map(|(prefix, left, reason)| (prefix, left, reason.clone()));
    let remove = own.keys().filter(|prefix| !wanted.contains_key(prefix));
    (add.collect(), remove.copied().collect())
}

/// The host of a feed.
pub trait Host {
    /// The feed's own bans in force, and the room for more. `interfaces`: their names; empty: all.
    fn own(&mut self, interfaces: &[String]) -> impl Future<Output = Result<OwnBy, String>>;

    /// Adds or renews bans, and removes others. Bans of other origins stay as they are.
    fn change(&mut self, interface: &str, edit: Edit) -> impl Future<Output = Result<(), String>>;

    /// Returns true if the host cannot answer any more.
    fn is_gone(&self) -> bool;

    /// Publishes the state of the feed.
    fn report(&mut self, state: &State);
}

/// The state of a feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    /// Interfaces; empty: all that limiter is attached to.
    pub interfaces: Vec<String>,
    /// Path or URL of the source.
    pub source: String,
    /// Bans that the source wants.
    pub wanted: u64,
    /// Time of the last round without an error, in seconds since 1970.
    pub succeeded: Option<u64>,
    /// The error of the last round.
    pub error: Option<String>,
}

/// A feed.
#[derive(Debug)]
pub struct Feed<H> {
    settings: Settings,
    source: Arc<Mutex<Source>>,
    /// The host.
    pub host: H,
    wanted: Wanted,
    state: State,
}

impl<H: Host> Feed<H> {
    /// Creates a feed. `key`: for CrowdSec.
    pub fn new(settings: Settings, key: String, host: H) -> Self {
        let state = State {
            interfaces: settings.interfaces.clone(),
            source: settings.shown(),
            ..State::default()
        };
        Self {
            source: Arc::new(Mutex::new(Source::new(settings.clone(), key))),
            settings,
            host,
            wanted: Wanted::new(),
            state,
        }
    }

    /// Runs rounds until the host is gone, and returns the error. `say` gets the first success, each new error, and its
    /// end.
    pub async fn run(&mut self, say: impl Fn(&str)) -> String {
        loop {
            let before = self.state.clone();
            let interval = self.settings.interval();
            let pause = match self.round().await {
                Err(error) if self.host.is_gone() => return error,
                Err(error) => {
                    if before.error.as_ref() != Some(&error) {
                        say(&format!("{error}; bans stay in force until they end"));
                    }
                    interval.clamp(SOON, LATER)
                }
                Ok(()) => {
                    if before.error.is_some() || before.succeeded.is_none() {
                        say("in step with its source");
                    }
                    interval
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Fetches the source, and brings the bans to the wanted ones.
    pub async fn round(&mut self) -> Result<(), String> {
        // After an error all is read anew, for what that round has read may be lost.
        let is_all = self.state.succeeded.is_none() || self.state.error.is_some();
        let source = self.source.clone();
        let fetch = move || source.blocking_lock().fetch(is_all);
        let fetched = tokio::task::spawn_blocking(fetch).await;
        let now = Instant::now();
        // The bans may have been removed by hand, or an interface attached anew: they are compared with the wanted ones
        // also if the source fails. Only an answer of CrowdSec without changes is no reason.
        let (mut new, mut error, mut is_due) = (None, None, true);
        match fetched.map_err(|error| error.to_string()).flatten() {
            Ok(Fetched::All(wanted)) => new = Some(wanted),
            Ok(Fetched::Same(ends)) => {
                let all = self.wanted.values_mut();
                all.for_each(|(end, _)| *end = Some(ends));
            }
            Ok(Fetched::Changes(changes)) => {
                is_due = changes != Decisions::default();
                changes.apply(&mut self.wanted);
            }
            Err(why) => error = Some(why),
        }
        // Without anything read since the start, nothing is known to be wanted.
        if new.is_some() || (is_due && self.state.succeeded.is_some()) {
            error = self.bring(new, now).await.err().or(error);
        }
        // Errors may quote the source, which must not fill logs.
        let line = |error: String| error.replace('\n', " ").chars().take(LINE).collect();
        let error: Option<String> = error.map(line);
        if error.is_none() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            self.state.succeeded = since.ok().map(|since| since.as_secs());
        }
        self.state.wanted = self.wanted.len() as u64;
        self.state.error = error.clone();
        self.host.report(&self.state);
        error.map_or(Ok(()), Err)
    }

    /// Removes all bans of this feed. Returns their number.
    pub async fn remove(&mut self) -> Result<usize, String> {
        let mut removed = 0;
        for (interface, own) in self.host.own(&self.settings.interfaces).await? {
            let own: Vec<_> = own?.0.into_keys().collect();
            removed += own.len();
            self.change(&interface, (Vec::new(), own)).await?;
        }
        Ok(removed)
    }

    /// Brings the bans to the `new` wanted ones, or to those of the last time. An interface that cannot be read or
    /// changed does not keep the others from their bans.
    async fn bring(&mut self, new: Option<Wanted>, now: Instant) -> Result<(), String> {
        let all = self.host.own(&self.settings.interfaces).await?;
        if let Some(new) = new {
            for (interface, own) in &all {
                if let Ok((own, _)) = own {
                    self.check_change(interface, own, &new)?;
                }
            }
            self.wanted = new;
        }
        self.wanted.retain(|_, (ends, _)| *ends > Some(now));
        let mut result = Ok(());
        for (interface, own) in all {
            let brought = match own {
                Ok((own, room)) => self.bring_on(&interface, &own, room).await,
                Err(error) => Err(error),
            };
            result = result.and(brought);
        }
        result
    }

    async fn bring_on(&mut self, interface: &str, own: &Own, room: u64) -> Result<(), String> {
        // Half of a long time is not worth a change.
        let edit = difference(own, &self.wanted, |left| (left / 2).max(2_000));
        let is_new = |ban: &&Wish| !own.contains_key(&ban.0);
        let new = edit.0.iter().filter(is_new).count();
        if new > edit.1.len() && (new - edit.1.len()) as u64 > room {
            return Err(format!(
                "{interface} has room for {room} bans more, and {} has {}: attach again with a larger --max-bans, or use a shorter list",
                self.state.source,
                self.wanted.len()
            ));
        }
        self.change(interface, edit).await
    }

    /// Fails if a list has changed so much that it is most likely broken: it lacks bans in force, or has many more
    /// entries than the last one that this process has read.
    fn check_change(&self, interface: &str, own: &Own, new: &Wanted) -> Result<(), String> {
        let most = |all: usize| FEW.max(all.saturating_mul(self.settings.max_change) / 100);
        let is_gone = |prefix: &&IpNet| !new.contains_key(prefix);
        let removed = own.keys().filter(is_gone).count();
        let last = self.wanted.len();
        let is_right = removed <= most(own.len())
            && (last == 0 || new.len().saturating_sub(last) <= most(last));
        if self.settings.list.is_none() || is_right {
            return Ok(());
        }
        Err(format!(
            "{}: it has {} entries, and would remove {removed} of {} bans on {interface}, more than max-change = {} allows: read the list, and set max-change if it is right",
            self.state.source,
            new.len(),
            own.len(),
            self.settings.max_change
        ))
    }

    async fn change(&mut self, interface: &str, (mut add, mut remove): Edit) -> Result<(), String> {
        while !add.is_empty() || !remove.is_empty() {
            let add = add.split_off(add.len().saturating_sub(AT_ONCE));
            let remove = remove.split_off(remove.len().saturating_sub(AT_ONCE));
            self.host.change(interface, (add, remove)).await?;
        }
        Ok(())
    }
}
