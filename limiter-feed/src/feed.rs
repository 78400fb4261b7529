//! The rounds of a feed.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ipnet::IpNet;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    Settings, coverage,
    host::{Edit, Host, Others, Own, OwnBy, State},
    http::Servers,
    left_out::{LeftOut, Reason},
    protected::{Protected, show},
    source::{All, Fetched, Source, Wanted},
    unconfirmed::Unconfirmed,
};

/// Bounds of the time from a failed round to the next.
const SOON: Duration = Duration::from_secs(5);
const LATER: Duration = Duration::from_secs(60);

/// Time beyond the timeout, in which the HTTP client reports its own.
const GRACE: Duration = Duration::from_secs(1);

/// The longest error, in characters.
const LINE: usize = 400;

/// Bans per change, so that other commands need not wait long for the attachment's lock.
const AT_ONCE: usize = 5_000;

/// Bans that a list may change in a round, whatever `max-change` is.
const FEW: usize = 100;

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

/// A feed.
#[derive(Debug)]
pub struct Feed<H> {
    settings: Settings,
    source: Arc<Mutex<Source>>,
    /// The servers of the source.
    servers: Servers,
    /// The host.
    pub host: H,
    wanted: Wanted,
    unconfirmed: Unconfirmed,
    /// Entries that the source has, and that no interface could ban.
    unusable: Vec<LeftOut>,
    /// Time from which the source is read again.
    due: Instant,
    /// True if the source has been read since the start: what it wants is known.
    is_known: bool,
    /// True if nothing that the source has told was lost, so that changes are enough.
    is_whole: bool,
    /// True if all interfaces have what they should.
    is_brought: bool,
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
        let servers = Servers::default();
        let source = Source::new(settings.clone(), key, servers.clone());
        Self {
            source: Arc::new(Mutex::new(source)),
            servers,
            settings,
            host,
            wanted: Wanted::new(),
            unconfirmed: Unconfirmed::default(),
            unusable: Vec::new(),
            due: Instant::now(),
            is_known: false,
            is_whole: false,
            is_brought: false,
            state,
        }
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
                        say(&format!("{error}; bans stay in force until they end"));
                    }
                }
                Ok(()) => {
                    if before.error.is_some() || before.succeeded.is_none() {
                        say("in step with its source");
                    }
                }
            }
            self.notes(&before).iter().for_each(|note| say(note));
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// Lines about what is left out or held back, and was not in the state `before`.
    pub fn notes(&self, before: &State) -> Vec<String> {
        let is_new = |it: &&LeftOut| {
            let mut before = before.left_out.iter();
            !before.any(|one| (one.reason, &one.first) == (it.reason, &it.first))
        };
        let left_out = self.state.left_out.iter().filter(is_new);
        let mut notes: Vec<_> = left_out.map(LeftOut::text).collect();
        if let (count, Some(first)) = self.unconfirmed.count()
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

    /// Time after which something that has failed is tried again.
    fn again(&self) -> Duration {
        self.settings.interval().clamp(SOON, LATER)
    }

    /// Fetches the source if it is due, and brings the bans to the wanted ones. An interface that fails does not make the
    /// source be read again.
    pub async fn round(&mut self) -> Result<(), String> {
        let asked = Instant::now();
        let (mut news, mut error) = (None, None);
        if asked >= self.due {
            match self.fetch().await {
                Ok(fetched) => news = Some(fetched),
                Err(why) => error = Some(why),
            }
            self.is_whole = error.is_none();
            let interval = self.settings.interval();
            let pause = if self.is_whole {
                interval
            } else {
                self.again()
            };
            self.due = Instant::now() + pause;
        }
        // The bans may have been removed by hand, or an interface attached anew: they are compared with the wanted ones
        // also if the source fails. Only an answer of CrowdSec without changes is no reason.
        let is_quiet = matches!(&news, Some(Fetched::Changes(changes)) if changes.is_empty());
        if !is_quiet || !self.is_brought {
            error = self.bring(news, asked).await.err().or(error);
        }
        // Errors may quote the source, which must not fill logs.
        let line = |error: String| error.replace('\n', " ").chars().take(LINE).collect();
        let error: Option<String> = error.map(line);
        if error.is_none() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            self.state.succeeded = since.ok().map(|since| since.as_secs());
        }
        self.state.wanted = self.wanted.len() as u64;
        self.state.held_back = self.unconfirmed.count().0;
        self.state.error = error.clone();
        self.host.report(&self.state);
        error.map_or(Ok(()), Err)
    }

    /// Reads the source, within its timeout. A file of a network may stop a thread for ever: then there is one such
    /// thread.
    async fn fetch(&self) -> Result<Fetched, String> {
        let source = Arc::clone(&self.source);
        let is_all = !self.is_whole;
        let (shown, longest) = (&self.state.source, self.settings.timeout);
        let late = || {
            format!(
                "{shown} was not read within {}: see why, or set timeout if it should take longer",
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
            let own: Vec<_> = own?.0.into_keys().collect();
            removed += own.len();
            self.change(&interface, (Vec::new(), own)).await?;
        }
        Ok(removed)
    }

    /// Takes the news, and brings the bans to the wanted ones. An interface that cannot be read or changed does not keep
    /// the others from their bans.
    async fn bring(&mut self, news: Option<Fetched>, asked: Instant) -> Result<(), String> {
        self.is_brought = false;
        let found = self.host.own(&self.settings.interfaces).await;
        let taken = match (&found, news) {
            (_, None) => Ok(()),
            (Ok(found), Some(news)) => self.take(news, &found.own, asked),
            // The news are lost.
            (Err(error), Some(_)) => Err(error.clone()),
        };
        if taken.is_err() {
            self.is_whole = false;
            self.due = Instant::now() + self.again();
        }
        let mut found = found?;
        if !self.is_known {
            return taken;
        }
        let now = Instant::now();
        self.wanted
            .retain(|_, (ends, _)| ends.is_none_or(|ends| ends > now));
        self.unconfirmed.retain(&self.wanted);
        let servers = self.servers.addresses();
        found.protected.add(servers, "the feed's own source");
        let allowed = self.allowed(&found.protected);
        let mut result = Ok(());
        let mut others = Others::default();
        for (interface, own) in found.own {
            let brought = match own {
                Ok((own, room)) => self.bring_on(&interface, &own, room, &allowed).await,
                Err(error) => Err(error),
            };
            match brought {
                Ok(left) if left.0 > others.0 => others = left,
                Ok(_) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        if let (count, Some(first)) = others {
            let left_out = &mut self.state.left_out;
            LeftOut::add_many(left_out, Reason::OtherOrigin, count, || show(&first));
        }
        self.is_brought = result.is_ok();
        taken.and(result)
    }

    /// Takes the news of the source, unless they are most likely a mistake.
    fn take(&mut self, news: Fetched, own: &OwnBy, asked: Instant) -> Result<(), String> {
        match news {
            Fetched::All(all) => self.take_all(all, own, asked)?,
            Fetched::Same(ends) => {
                let all = self.wanted.values_mut();
                all.for_each(|(end, _)| *end = Some(ends));
            }
            Fetched::Changes(changes) => {
                let mut new = self.wanted.clone();
                for (prefix, ..) in &changes.new {
                    self.unconfirmed.confirm(prefix);
                }
                for one in &changes.left_out {
                    let first = || one.first.clone();
                    LeftOut::add_many(&mut self.unusable, one.reason, one.entries, first);
                }
                changes.apply(&mut new);
                self.check_coverage(&new)?;
                self.wanted = new;
            }
        }
        self.is_known = true;
        Ok(())
    }

    fn take_all(&mut self, all: All, own: &OwnBy, asked: Instant) -> Result<(), String> {
        let All {
            wanted: mut new,
            left_out,
            ended,
        } = all;
        self.check_coverage(&new)?;
        let read = own
            .iter()
            .filter_map(|(name, own)| Some((name, own.as_ref().ok()?)));
        if self.settings.list.is_some() {
            for (interface, (own, _)) in read {
                self.check_change(interface, own, &new)?;
            }
        } else {
            // Bans of an earlier process are known too.
            let now = Instant::now();
            let mut known = self.wanted.clone();
            for (prefix, left) in read.flat_map(|(_, (own, _))| own) {
                let ends = now.checked_add(Duration::from_millis(*left));
                known.entry(*prefix).or_insert((ends, String::new()));
            }
            self.unconfirmed.keep(&mut new, known, &ended, asked);
        }
        (self.wanted, self.unusable) = (new, left_out);
        Ok(())
    }

    /// The wanted bans without those that cover protected addresses. Notes those that are left out.
    fn allowed(&mut self, protected: &Protected) -> Wanted {
        let covering = protected.covering(self.wanted.keys());
        self.state.left_out.clone_from(&self.unusable);
        if let Some(first) = covering.first() {
            let (count, words) = (covering.len() as u64, protected.words(first));
            let first = || words.unwrap_or_default();
            LeftOut::add_many(&mut self.state.left_out, Reason::Protected, count, first);
        }
        let mut allowed = self.wanted.clone();
        allowed.retain(|prefix, _| !covering.contains(prefix));
        allowed
    }

    async fn bring_on(
        &mut self,
        interface: &str,
        own: &Own,
        room: u64,
        wanted: &Wanted,
    ) -> Result<Others, String> {
        // Half of a long time is not worth a change.
        let edit = difference(own, wanted, |left| (left / 2).max(2_000));
        let new = edit.0.iter().filter(|ban| !own.contains_key(&ban.0));
        let mut new: BTreeSet<IpNet> = new.map(|ban| ban.0).collect();
        let fits = |new: &BTreeSet<_>| new.len() as u64 <= edit.1.len() as u64 + room;
        if !fits(&new) {
            // Bans of other origins stay, and take no more room.
            let others = self.host.others(interface).await?;
            let others: BTreeSet<_> = others.into_iter().collect();
            new.retain(|prefix| !others.contains(prefix));
        }
        if !fits(&new) {
            return Err(format!(
                "{interface} has room for {room} bans more of feeds, and {} has {}: attach again with a larger --max-bans (a sixteenth, at least 64, is kept for `ban`, fail2ban and a fleet), or use a shorter list",
                self.state.source,
                self.wanted.len()
            ));
        }
        self.change(interface, edit).await
    }

    /// Fails if the wanted bans cover more than `max-coverage` allows.
    fn check_coverage(&self, new: &Wanted) -> Result<(), String> {
        let checked = coverage::check(new.keys(), self.settings.max_coverage);
        checked.map_err(|why| format!("{}: {why}", self.state.source))
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
        if is_right {
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

    async fn change(
        &mut self,
        interface: &str,
        (mut add, mut remove): Edit,
    ) -> Result<Others, String> {
        let mut all = Others::default();
        while !add.is_empty() || !remove.is_empty() {
            let add = add.split_off(add.len().saturating_sub(AT_ONCE));
            let remove = remove.split_off(remove.len().saturating_sub(AT_ONCE));
            let (count, first) = self.host.change(interface, (add, remove)).await?;
            // The first prefixes come last.
            all = (all.0 + count, first.or(all.1));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs};

    use super::*;
    use crate::host::Found;

    /// A host whose second interface may be off.
    #[derive(Default)]
    struct Fake {
        bans: [Own; 2],
        is_off: bool,
    }

    impl Host for Fake {
        async fn own(&mut self, _: &[String]) -> Result<Found, String> {
            let one = ("one".to_owned(), Ok((self.bans[0].clone(), 10)));
            let two = match self.is_off {
                true => Err("two is off".to_owned()),
                false => Ok((self.bans[1].clone(), 10)),
            };
            Ok(Found {
                own: vec![one, ("two".to_owned(), two)],
                protected: Protected::default(),
            })
        }

        async fn others(&mut self, _: &str) -> Result<Vec<IpNet>, String> {
            Ok(Vec::new())
        }

        async fn change(&mut self, interface: &str, edit: Edit) -> Result<Others, String> {
            let bans = &mut self.bans[usize::from(interface == "two")];
            bans.extend(edit.0.into_iter().map(|(prefix, left, _)| (prefix, left)));
            bans.retain(|prefix, _| !edit.1.contains(prefix));
            Ok(Others::default())
        }

        fn is_gone(&self) -> bool {
            false
        }

        fn report(&mut self, _: &State) {}
    }

    #[tokio::test]
    async fn interface_that_is_off_is_tried_again_without_reading_the_source() {
        let path = std::env::temp_dir().join(format!("limiter-feed-{}", std::process::id()));
        fs::write(&path, "192.0.2.7\n").expect("written");
        let text = format!("list = '{}'", path.display());
        let settings = Settings::parse(&text).expect("valid");
        let host = Fake {
            is_off: true,
            ..Fake::default()
        };
        let mut feed = Feed::new(settings, String::new(), host);
        assert_eq!(feed.round().await, Err("two is off".to_owned()));
        let lengths = |feed: &Feed<Fake>| feed.host.bans.each_ref().map(HashMap::len);
        assert_eq!((lengths(&feed), feed.pause()), ([1, 0], LATER));
        // The list is due in an hour.
        fs::write(&path, "192.0.2.7\n192.0.2.8\n").expect("written");
        assert_eq!(feed.round().await, Err("two is off".to_owned()));
        feed.host.is_off = false;
        assert_eq!(feed.round().await, Ok(()));
        assert_eq!(lengths(&feed), [1, 1]);
        assert!(feed.pause() > Duration::from_secs(3_500));
        // A source that fails is tried again soon.
        fs::remove_file(&path).expect("removed");
        feed.due = Instant::now();
        assert!(feed.round().await.is_err());
        assert!(feed.pause() > SOON && feed.pause() <= LATER);
        assert_eq!(lengths(&feed), [1, 1]);
    }
}
