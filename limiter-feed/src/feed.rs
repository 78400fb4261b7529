//! The rounds of a feed: when it reads its source, and when it brings the bans to the wanted ones.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ipnet::IpNet;
use limiter_config::bans::{Edit, Own};
use tokio::{sync::Mutex, time::timeout};

use crate::{
    Settings, change,
    host::{Host, Present, ReadAs, State},
    http::{Access, Servers},
    left_out::{LeftOut, Reason},
    protected::{Protected, show},
    retry::Retry,
    settings::is_url,
    source::{Failed, Fetched, Source, Wanted},
    wishes::{Wishes, around},
};

/// Bounds of the time after which an interface that failed is tried again.
const SOON: Duration = Duration::from_secs(5);
const LATER: Duration = Duration::from_secs(60);

/// Time beyond the timeout, in which the HTTP client reports its own.
const GRACE: Duration = Duration::from_secs(1);

/// The longest error, in characters.
const LINE: usize = 400;

/// Bans without effect.
#[derive(Default)]
struct Idle {
    count: u64,
    first: Option<IpNet>,
}

/// A feed.
#[derive(Debug)]
pub struct Feed<H> {
    settings: Settings,
    source: Arc<Mutex<Source>>,
    /// The servers of the source.
    servers: Servers,
    /// The host.
    pub host: H,
    wishes: Wishes,
    /// Time from which the source is read again.
    due: Instant,
    /// The failures to read it.
    retry: Retry,
    /// The pause until it is read again, if the last round failed to.
    waits: Option<Duration>,
    /// True if nothing that the source has told was lost, so that changes are enough.
    is_whole: bool,
    /// True if all interfaces have what they should.
    is_brought: bool,
    /// True if nothing is changed: rounds find out what they would change.
    is_dry: bool,
    /// The changes of the last round.
    changes: Vec<change::Size>,
    state: State,
}

impl<H: Host> Feed<H> {
    /// Creates a feed. `access`: to CrowdSec.
    pub fn new(settings: Settings, access: Access, host: H) -> Self {
        let state = State {
            interfaces: settings.interfaces.clone(),
            source: settings.shown(),
            ..State::default()
        };
        let servers = Servers::default();
        let source = Source::new(settings.clone(), access, servers.clone());
        Self {
            source: Arc::new(Mutex::new(source)),
            servers,
            settings,
            host,
            wishes: Wishes::default(),
            due: Instant::now(),
            retry: Retry::default(),
            waits: None,
            is_whole: false,
            is_brought: false,
            is_dry: false,
            changes: Vec::new(),
            state,
        }
    }

    /// Makes rounds change nothing, and find out what they would change.
    pub fn dry_run(&mut self) {
        self.is_dry = true;
    }

    /// Lines about what the last round has changed, or would change.
    pub fn changes(&self) -> Vec<String> {
        let would = if self.is_dry { "that would be " } else { "" };
        let line = |size: &change::Size| {
            format!(
                "{}: bans {would}added: {}, renewed: {}, removed: {}",
                size.interface, size.added, size.renewed, size.removed
            )
        };
        self.changes.iter().map(line).collect()
    }

    /// The state after the last round.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Runs rounds until the host is gone, and returns the error. `say` gets the first success, each new error, its
    /// end, and what begins to be left out or held back.
    pub async fn run(&mut self, say: impl Fn(&str)) -> String {
        loop {
            let before = self.state.clone();
            match self.round().await {
                Err(error) if self.host.is_gone() => return error,
                Err(error) => {
                    if before.error.as_ref() != Some(&error) {
                        let pause = self.waits.unwrap_or_else(|| self.again());
                        let pause = humantime::format_duration(pause);
                        say(&format!(
                            "{error}; bans stay in force until they end; the next try is in {pause}"
                        ));
                    }
                }
                Ok(()) => {
                    if before.error.is_some() || before.succeeded.is_none() {
                        say("in step with its source");
                    }
                }
            }
            self.notes(&before).iter().for_each(|note| say(note));
            // CrowdSec's decisions change all the time.
            if self.settings.list.is_some()
                && self.changes.iter().any(change::Size::is_worth_a_line)
            {
                self.changes().iter().for_each(|line| say(line));
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// Lines about how the list was read, if there is no error, and what is left out or held back, if they were not in the
    /// state `before`.
    pub fn notes(&self, before: &State) -> Vec<String> {
        let form = |read: &ReadAs| (read.format.clone(), read.why.clone(), read.networks);
        let is_said = before.error.is_none() && before.succeeded.is_some();
        let said = before.read_as.as_ref().filter(|_| is_said).map(form);
        let read_as = self.state.read_as.as_ref();
        let read_as = read_as.filter(|now| self.state.error.is_none() && said != Some(form(now)));
        let is_new = |now: &&LeftOut| {
            let mut before = before.left_out.iter();
            !before.any(|then| (then.reason, &then.first) == (now.reason, &now.first))
        };
        let left_out = self.state.left_out.iter().filter(is_new);
        let mut notes = read_as.map(ReadAs::notes).unwrap_or_default();
        notes.extend(left_out.map(LeftOut::text));
        if let (count, Some(first)) = self.wishes.unconfirmed.count()
            && count != before.held_back
        {
            notes.push(format!(
                "CrowdSec's answer lacks {count} bans without reporting their end, such as {}: they stay until another full answer, at least 30 s later, lacks them too",
                show(first)
            ));
        }
        notes
    }

    /// Time to the next round.
    fn pause(&self) -> Duration {
        let next = self.due.saturating_duration_since(Instant::now());
        match self.is_brought {
            true => next,
            false => next.min(self.again()),
        }
    }

    /// Time after which an interface that has failed is tried again.
    fn again(&self) -> Duration {
        self.settings.interval().clamp(SOON, LATER)
    }

    /// Fetches the source if it is due, and brings the bans to the wanted ones. An interface that fails does not make the
    /// source be read again.
    pub async fn round(&mut self) -> Result<(), String> {
        let asked = Instant::now();
        let (mut news, mut error) = (None, None);
        self.waits = None;
        if asked >= self.due {
            match self.fetch().await {
                Ok(fetched) => {
                    news = Some(fetched);
                    self.is_whole = true;
                    self.due = Instant::now() + self.settings.interval();
                }
                Err(failed) => error = Some(self.failed(failed)),
            }
        }
        // The bans may have been removed by hand, or an interface attached anew: they are compared with the wanted ones
        // also if the source fails. Only an answer of CrowdSec without changes is no reason.
        let is_quiet = matches!(&news, Some(Fetched::Changes(changes)) if changes.is_empty());
        if is_quiet && self.is_brought {
            self.retry.reset();
        } else {
            error = self.bring(news, asked).await.err().or(error);
        }
        // Errors may quote the source, which must not fill logs.
        let line = |error: String| error.replace('\n', " ").chars().take(LINE).collect();
        let error: Option<String> = error.map(line);
        if error.is_none() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            self.state.succeeded = since.ok().map(|since| since.as_secs());
        }
        self.state.wanted = self.wishes.wanted.len() as u64;
        self.state.held_back = self.wishes.unconfirmed.count().0;
        self.state.read_as.clone_from(&self.wishes.read_as);
        self.state.error = error.clone();
        self.host.report(&self.state);
        error.map_or(Ok(()), Err)
    }

    /// Notes that the source could not be read, or was not believed: all of it is read after a pause. Returns the reason.
    fn failed(&mut self, failed: Failed) -> String {
        self.is_whole = false;
        let pause = self.retry.failed(failed.pause, self.settings.interval());
        self.waits = Some(pause);
        self.due = Instant::now() + pause;
        failed.why
    }

    /// Reads the source, within its timeout. A file of a network may stop a thread for ever: then there is one such
    /// thread.
    async fn fetch(&self) -> Result<Fetched, Failed> {
        let source = Arc::clone(&self.source);
        let is_all = !self.is_whole;
        let (shown, longest) = (&self.state.source, self.settings.timeout);
        let hint = match is_url(self.settings.source()) {
            true => "its server may be slow",
            false => "its file system does not answer, as of a network, or the processor is busy",
        };
        let late = || {
            format!(
                "{shown} was not read within {}: {hint}; set timeout if it should take longer",
                humantime::format_duration(longest)
            )
        };
        let fetch = move || {
            let mut source = source.try_lock().ok()?;
            Some(source.fetch(is_all))
        };
        let fetched = timeout(longest + GRACE, tokio::task::spawn_blocking(fetch)).await;
        let fetched = fetched.map_err(|_| late())?;
        fetched
            .map_err(|error| error.to_string())?
            .ok_or_else(late)?
    }

    /// Removes all bans of this feed. Returns their number.
    pub async fn remove(&mut self) -> Result<usize, String> {
        let mut removed = 0;
        for (interface, own) in self.host.own(&self.settings.interfaces).await?.own {
            let own: Vec<_> = own?.own.into_keys().collect();
            removed += own.len();
            let edit = Edit {
                remove: own,
                ..Edit::default()
            };
            change::change(&mut self.host, &interface, edit).await?;
        }
        Ok(removed)
    }

    /// Takes the news, and brings the bans to the wanted ones. An interface that cannot be read or changed does not keep
    /// the others from their bans.
    async fn bring(&mut self, news: Option<Fetched>, asked: Instant) -> Result<(), String> {
        self.is_brought = false;
        self.changes.clear();
        let found = self.host.own(&self.settings.interfaces).await;
        let taken = match (&found, news) {
            (_, None) => Ok(()),
            (Ok(found), Some(news)) => self
                .wishes
                .take(news, &found.own, asked, &self.settings)
                .map(|()| self.retry.reset())
                .map_err(|why| self.failed(Failed::refused(why, &self.settings))),
            // The news are lost.
            (Err(error), Some(_)) => Err(self.failed(error.clone().into())),
        };
        let mut found = found?;
        if !self.wishes.is_known {
            return taken;
        }
        self.wishes.drop_ended(Instant::now());
        let servers = self.servers.addresses();
        found.protected.add(servers, "the feed's own source");
        let allowed = self.allowed(&found.protected);
        let mut result = Ok(());
        // An entry counts once, so those of the interface with the most are counted.
        let (mut idle, mut unlimited) = (Idle::default(), Idle::default());
        for (interface, present) in found.own {
            let brought = match present {
                Ok(present) => {
                    let on_allow = on_allow(&allowed, &present.allowed);
                    if on_allow.count > idle.count {
                        idle = on_allow;
                    }
                    if let Some(first) = self.wishes.throttled.first()
                        && !present.has_throttle
                    {
                        unlimited = Idle {
                            count: self.wishes.throttled.len() as u64,
                            first: Some(*first),
                        };
                    }
                    self.bring_one(&interface, &present, &allowed).await
                }
                Err(error) => Err(error),
            };
            result = result.and(brought);
        }
        for (reason, found) in [(Reason::Allowed, idle), (Reason::Throttle, unlimited)] {
            if let Some(first) = found.first {
                LeftOut::add_many(&mut self.state.left_out, reason, found.count, || {
                    show(&first)
                });
            }
        }
        // Other bans may end, and leave room.
        let is_short = |left_out: &LeftOut| left_out.reason == Reason::NoRoom;
        self.is_brought = result.is_ok() && !self.state.left_out.iter().any(is_short);
        taken.and(result)
    }

    /// Brings the `own` bans on an interface to the wanted ones, or finds out what that would change.
    async fn bring_one(
        &mut self,
        interface: &str,
        present: &Present,
        wanted: &Wanted,
    ) -> Result<(), String> {
        let Present { own, room, .. } = present;
        let throttled = self.wishes.throttled.clone();
        let without = (!present.has_throttle && !throttled.is_empty()).then(|| {
            let banned = wanted
                .iter()
                .filter(|(prefix, _)| !throttled.contains(prefix));
            banned
                .map(|(prefix, wish)| (*prefix, wish.clone()))
                .collect::<Wanted>()
        });
        let wanted = without.as_ref().unwrap_or(wanted);
        let most = own
            .len()
            .saturating_add(usize::try_from(*room).unwrap_or(usize::MAX));
        let fitting = match self.settings.crowdsec {
            // Its decisions are many, and each one counts by itself.
            Some(_) if wanted.len() > most => Some(self.fitting(interface, own, most, wanted)),
            _ => None,
        };
        let wanted = fitting.as_ref().unwrap_or(wanted);
        let source = &self.state.source;
        let is_right = match self.settings.list {
            Some(_) => change::may_stay,
            None => change::is_near,
        };
        let wanted = (wanted, &throttled);
        let (edit, size) = change::plan(interface, present, wanted, source, is_right)?;
        if !self.is_dry {
            change::change(&mut self.host, interface, edit).await?;
        }
        self.changes.push(size);
        Ok(())
    }

    /// The wanted bans that an interface has room for. Notes the others.
    fn fitting(&mut self, interface: &str, own: &Own, most: usize, wanted: &Wanted) -> Wanted {
        let (fit, left_out) = change::fitting(wanted, own, most, &self.wishes.local);
        if let Some(first) = left_out.first() {
            let first = || format!("{} on {interface}", show(first));
            let count = left_out.len() as u64;
            LeftOut::add_many(&mut self.state.left_out, Reason::NoRoom, count, first);
        }
        fit
    }

    /// The wanted bans without the protected addresses. Notes those that are left out, whole or in part. Decisions of
    /// CrowdSec are left out whole: its answers are compared with the bans in force.
    fn allowed(&mut self, protected: &Protected) -> Wanted {
        let covering = protected.covering(self.wishes.wanted.keys());
        self.state.left_out.clone_from(&self.wishes.unusable);
        let mut allowed = self.wishes.without(&covering);
        for prefix in &covering {
            let rest = match self.settings.list {
                Some(_) => protected.rest(prefix),
                None => Vec::new(),
            };
            let reason = match rest.is_empty() {
                true => Reason::Protected,
                false => Reason::InPart,
            };
            let first = || protected.words(prefix).unwrap_or_default();
            LeftOut::add(&mut self.state.left_out, reason, first);
            if let Some(wish) = self.wishes.wanted.get(prefix) {
                for net in rest {
                    allowed.entry(net).or_insert_with(|| wish.clone());
                }
            }
        }
        allowed
    }
}

/// The wanted bans without effect, because the allow list has all of their addresses: their number, and the first of them.
fn on_allow(wanted: &Wanted, allowed: &[IpNet]) -> Idle {
    if allowed.is_empty() {
        return Idle::default();
    }
    let allowed: BTreeSet<_> = allowed.iter().copied().collect();
    let is_on_allow = |prefix: &&IpNet| around(prefix).any(|around| allowed.contains(&around));
    let mut found = wanted.keys().filter(is_on_allow);
    let first = found.next().copied();
    Idle {
        count: found.count() as u64 + u64::from(first.is_some()),
        first,
    }
}

#[cfg(test)]
mod tests;
