//! The rounds of a feed: when it reads its source, and when it brings the bans to the wanted ones.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::Mutex, time::timeout};

use crate::{
    Settings, change,
    host::{Host, Others, State},
    http::Servers,
    left_out::{LeftOut, Reason},
    protected::{Protected, show},
    source::{Fetched, Source, Wanted},
    wishes::Wishes,
};

/// Bounds of the time from a failed round to the next.
const SOON: Duration = Duration::from_secs(5);
const LATER: Duration = Duration::from_secs(60);

/// Time beyond the timeout, in which the HTTP client reports its own.
const GRACE: Duration = Duration::from_secs(1);

/// The longest error, in characters.
const LINE: usize = 400;

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
            wishes: Wishes::default(),
            due: Instant::now(),
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
        let is_new = |now: &&LeftOut| {
            let mut before = before.left_out.iter();
            !before.any(|then| (then.reason, &then.first) == (now.reason, &now.first))
        };
        let left_out = self.state.left_out.iter().filter(is_new);
        let mut notes: Vec<_> = left_out.map(LeftOut::text).collect();
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
        self.state.wanted = self.wishes.wanted.len() as u64;
        self.state.held_back = self.wishes.unconfirmed.count().0;
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
            change::change(&mut self.host, &interface, (Vec::new(), own)).await?;
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
            (Ok(found), Some(news)) => self.wishes.take(news, &found.own, asked, &self.settings),
            // The news are lost.
            (Err(error), Some(_)) => Err(error.clone()),
        };
        if taken.is_err() {
            self.is_whole = false;
            self.due = Instant::now() + self.again();
        }
        let mut found = found?;
        if !self.wishes.is_known {
            return taken;
        }
        self.wishes.drop_ended(Instant::now());
        let servers = self.servers.addresses();
        found.protected.add(servers, "the feed's own source");
        let allowed = self.allowed(&found.protected);
        let mut result = Ok(());
        let mut others = Others::default();
        for (interface, own) in found.own {
            let brought = match own {
                Ok((own, room)) => {
                    let source = &self.state.source;
                    change::bring(&mut self.host, &interface, &own, room, &allowed, source).await
                }
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

    /// The wanted bans without those that cover protected addresses. Notes those that are left out.
    fn allowed(&mut self, protected: &Protected) -> Wanted {
        let covering = protected.covering(self.wishes.wanted.keys());
        self.state.left_out.clone_from(&self.wishes.unusable);
        if let Some(first) = covering.first() {
            let (count, words) = (covering.len() as u64, protected.words(first));
            let first = || words.unwrap_or_default();
            LeftOut::add_many(&mut self.state.left_out, Reason::Protected, count, first);
        }
        self.wishes.without(&covering)
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs};

    use ipnet::IpNet;

    use super::*;
    use crate::host::{Edit, Found, Own};

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
