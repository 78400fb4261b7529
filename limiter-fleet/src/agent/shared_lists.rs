//! The lists and bans of a fleet on one interface. They are read when the store announces a change, and put in force.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use ipnet::IpNet;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    host::{BANS, DENY, OnLists},
    status::{Listed, show},
    store::{Changed, Edit, Lists, StoredPrefix},
};

/// Time until a retry after an error.
const AGAIN: Duration = Duration::from_secs(5);
/// Time after which a list that no agent puts back may be changed.
const GIVEN_UP: Duration = Duration::from_secs(10);
/// A change that takes no longer needs no pause before the next one.
const SHORT: Duration = Duration::from_millis(500);

/// The channel for an answer.
pub type Answer = oneshot::Sender<serde_json::Value>;

/// Sends an answer to the asking command, if it is still connected.
pub(super) fn reply<T: Serialize>(answer: Answer, result: Result<T, String>) {
    if let Ok(value) = serde_json::to_value(result) {
        // Without a receiver, the answer is not needed.
        let _ = answer.send(value);
    }
}

/// A command that waits until a change of a list is in force here.
pub struct Waiting {
    pub changed: Changed,
    /// True if the change is one of bans.
    pub is_ban: bool,
    pub answer: Answer,
}

/// A change of a list that waits until the lists have been read.
pub struct Held {
    pub list: String,
    pub edit: Edit,
    pub answer: Answer,
}

/// Entries that the store has lost.
pub struct Lost {
    /// The last revision before the loss; 0 if this agent has not read the lists before.
    pub known: u64,
    /// The entries, by the lists' names.
    pub entries: BTreeMap<String, Vec<StoredPrefix>>,
    since: Instant,
    /// Time of the last attempt to put them back.
    pub tried: Option<Instant>,
}

/// The lists that are to be in force on a host.
pub struct Wanted {
    pub lists: OnLists,
    /// None if the bans have not been read.
    pub bans: Option<Vec<StoredPrefix>>,
    /// A line about one of the entries that are left out.
    pub left_out: Option<String>,
}

#[derive(Default)]
pub struct SharedLists {
    lists: BTreeMap<String, BTreeMap<IpNet, StoredPrefix>>,
    /// The last revision that was read; 0 before the first reading.
    pub revision: u64,
    /// The time of the first change of a list, at the last reading.
    pub born: u64,
    /// Entries that the store has lost, until an agent has put them back.
    pub lost: Option<Lost>,
    /// False if the lists must be read, whatever their revision.
    pub is_read: bool,
    pub is_reading: bool,
    /// True if some of the entries are not in force yet.
    pub is_pending: bool,
    /// Time at which the present change of this host's lists began.
    begun: Option<Instant>,
    /// Time from which the next change may begin, whatever the store sends.
    rested: Option<Instant>,
    /// Lines about entries that are not in force here, because they would cut this host off.
    pub left_out: Vec<String>,
    /// Lines already reported about the last change.
    reported: Vec<String>,
    pub waiting: Vec<Waiting>,
    pub held: Vec<Held>,
}

impl SharedLists {
    /// Returns true if the lists are to be read: the store has announced another revision or a loss, or a command waits.
    pub fn is_due(&self, announced: u64, is_short: bool, now: Instant) -> bool {
        let is_lost = match &self.lost {
            Some(lost) => lost.tried.is_none_or(|tried| tried + AGAIN <= now),
            None => is_short,
        };
        let is_new = !self.is_read || self.revision != announced || is_lost;
        (is_new && Some(now) >= self.rested) || self.awaits_reading()
    }

    /// Returns true if the lists may be changed. A change must not meet lists that agents are about to put back.
    pub fn may_change(&self, now: Instant) -> bool {
        let is_given_up = |lost: &Lost| lost.known == 0 && lost.since + GIVEN_UP <= now;
        self.is_read && self.lost.as_ref().is_none_or(is_given_up)
    }

    /// The birth of the lists that this agent knows; 0 if it knows none.
    pub fn known_birth(&self) -> u64 {
        if self.lost.is_some() { 0 } else { self.born }
    }

    /// Returns true if a command waits for a revision that has not been read yet.
    pub fn awaits_reading(&self) -> bool {
        let mut waiting = self.waiting.iter();
        waiting
            .any(|waiting| waiting.changed.revision > self.revision && !waiting.answer.is_closed())
    }

    /// Stores the lists called `names` that were read. They are read again if the host shares others by now. Returns lines
    /// to report.
    pub fn take(
        &mut self,
        names: &[String],
        read: Lists,
        shared: &BTreeSet<String>,
    ) -> Vec<String> {
        let (mut lines, now) = (Vec::new(), Instant::now());
        self.notice_loss(&read, now);
        (self.revision, self.born) = (read.revision, read.born);
        (self.is_read, self.is_pending) = (names.iter().eq(shared), true);
        let mut missing = 0;
        for (name, entries) in names.iter().zip(read.lists) {
            let entries = match entries {
                Ok(entries) => entries,
                // The list stays unchanged.
                Err(error) => {
                    lines.push(error.to_string());
                    continue;
                }
            };
            let mut entries: BTreeMap<_, _> = by_prefix(entries);
            if let Some(lost) = &mut self.lost {
                let known = self.lists.remove(name);
                // This host keeps what is in force.
                if known.is_none() && read.short.contains(name) {
                    lines.push(format!("the store has lost prefixes of the fleet's list '{name}', which this agent does not know: this host keeps those in force until the list changes; then add the missing ones again"));
                    continue;
                }
                let gone = known.into_iter().flatten().map(|(_, entry)| entry);
                let gone = gone.filter(|entry| {
                    let is_over = entry.left_at(now).is_some_and(|left| left.is_zero());
                    !is_over && !entries.contains_key(&entry.prefix)
                });
                let gone: Vec<_> = gone.collect();
                missing += gone.len();
                entries.extend(by_prefix(gone.iter().cloned()));
                lost.entries.insert(name.clone(), gone);
            }
            self.lists.insert(name.clone(), entries);
        }
        if missing > 0 {
            lines.push(format!("the store has lost changes of the fleet's lists: the agents put the {missing} prefixes that are missing back; remove those again that were removed since"));
        }
        self.lists.retain(|name, _| names.contains(name));
        lines
    }

    /// Notes whether the store has lost lists. Until they are put back, it is not believed that prefixes were removed.
    fn notice_loss(&mut self, read: &Lists, now: Instant) {
        // Revisions only grow, unless the store has lost the later changes. All lists of a store are born once.
        let has_other_birth = self.born > 0 && read.born != self.born;
        let is_older = read.revision < self.revision || has_other_birth;
        if read.short.is_empty() {
            // Without this agent, they were put back, or changed.
            self.lost.take_if(|lost| lost.known == 0);
        }
        if (self.revision > 0 && is_older || !read.short.is_empty()) && self.lost.is_none() {
            self.lost = Some(Lost {
                known: self.revision,
                entries: BTreeMap::new(),
                since: now,
                tried: None,
            });
        }
    }

    /// Begins a change of this host's lists, if there is something to change. A change that a command waits for begins
    /// at once.
    pub fn begin(&mut self, now: Instant) -> bool {
        let mut waiting = self.waiting.iter();
        let is_awaited = waiting.any(|waiting| waiting.changed.revision <= self.revision);
        let may_begin = self.begun.is_none() && (is_awaited || Some(now) >= self.rested);
        let begins = self.is_pending && may_begin;
        if begins {
            (self.begun, self.is_pending) = (Some(now), false);
        }
        begins
    }

    /// The fleet's entries and bans to put in force, without those that contain the store's addresses. Lists that have not
    /// been read are not among them: what is in force stays. So it does if the store knows of no change of a list, because
    /// it may have lost them before this agent started.
    pub fn wanted(&self, store_at: &[IpAddr]) -> Wanted {
        let (mut lists, mut bans, mut left_out) = (OnLists::new(), None, None);
        let known = |entries: &BTreeMap<_, _>| self.revision > 0 || !entries.is_empty();
        for (name, entries) in self.lists.iter().filter(|(_, entries)| known(entries)) {
            let cuts_off = |prefix: &IpNet| cuts_off(name, prefix, store_at);
            if let Some(first) = entries.keys().find(|prefix| cuts_off(prefix)) {
                left_out = Some(format!(
                    "{} on the fleet's {name} is not in force here: it contains the store's own address, so this host would not hear of its removal",
                    show(first)
                ));
            }
            let rest = entries.values().filter(|entry| !cuts_off(&entry.prefix));
            if name == BANS {
                bans = Some(rest.cloned().collect());
            } else {
                lists.insert(name.clone(), rest.map(|entry| entry.prefix).collect());
            }
        }
        Wanted {
            lists,
            bans,
            left_out,
        }
    }

    /// Notes that the lists, and the bans, of this revision are in force, or why not. `left_out`: lines about entries that
    /// are not. Answers the commands that wait for
    /// it. Returns lines to report.
    pub fn done(
        &mut self,
        results: &[Result<(), String>; 2],
        revision: u64,
        left_out: Vec<String>,
        now: Instant,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        // Long lists that change all the time take at most half of the time.
        let begun = self.begun.take().unwrap_or(now);
        let mut rest = now.duration_since(begun).saturating_sub(SHORT);
        for (subject, result) in ["lists", "bans"].iter().zip(results) {
            if let Err(error) = result {
                // The cause may be temporary.
                self.is_pending = true;
                rest = rest.max(AGAIN);
                lines.push(format!("the fleet's {subject} are not in force: {error}"));
            }
        }
        self.rested = Some(now + rest);
        lines.extend(left_out.iter().cloned());
        self.left_out = left_out;
        self.answer_waiting(results, revision);
        let new = lines.iter().filter(|line| !self.reported.contains(line));
        let new = new.cloned().collect();
        self.reported = lines;
        new
    }

    /// Answers the commands that wait for this revision or an earlier one, by the result of lists or of bans.
    pub fn answer_waiting(&mut self, results: &[Result<(), String>; 2], revision: u64) {
        let came = |waiting: &mut Waiting| waiting.changed.revision <= revision;
        for waiting in self.waiting.extract_if(.., came) {
            let result = results[usize::from(waiting.is_ban)].clone();
            let result = result.map(|()| waiting.changed.prefixes);
            let here =
                |why| format!("the fleet has the change, but it is not in force here: {why}");
            reply(waiting.answer, result.map_err(here));
        }
    }

    /// The entries as `list` shows them; none if nothing has been read.
    pub fn listed(&self, name: &str, now: Instant) -> Option<Vec<Listed>> {
        let listed = self.lists.get(name)?.values().map(|entry| Listed {
            prefix: show(&entry.prefix),
            by: entry.author.clone(),
            age_seconds: entry.age_at(now).as_secs_f64(),
        });
        Some(listed.collect())
    }
}

fn by_prefix(entries: impl IntoIterator<Item = StoredPrefix>) -> BTreeMap<IpNet, StoredPrefix> {
    let entries = entries.into_iter();
    entries.map(|entry| (entry.prefix, entry)).collect()
}

/// Returns true if a prefix on this list would cut the host off from the store, and so from the news of its removal.
pub fn cuts_off(list: &str, prefix: &IpNet, store_at: &[IpAddr]) -> bool {
    (list == DENY || list == BANS) && store_at.iter().any(|address| prefix.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(prefix: &str) -> StoredPrefix {
        StoredPrefix {
            read_at: Instant::now(),
            prefix: prefix.parse().expect("a prefix"),
            author: "a".to_owned(),
            age: Duration::from_secs(5),
            left: None,
        }
    }

    /// Lets the lists read these entries of `deny`, which are banned too. Returns the lines to report.
    fn read(lists: &mut SharedLists, revision: u64, entries: &[StoredPrefix]) -> Vec<String> {
        read_of(lists, revision, 1, &[], entries)
    }

    /// Lets the lists read these entries of lists with this birth, of which some are `short`.
    fn read_of(
        lists: &mut SharedLists,
        revision: u64,
        born: u64,
        short: &[&str],
        entries: &[StoredPrefix],
    ) -> Vec<String> {
        let read = Lists {
            revision,
            born,
            short: short.iter().map(|name| (*name).to_owned()).collect(),
            lists: vec![Ok(entries.to_vec()), Ok(entries.to_vec())],
        };
        let names = ["bans", "deny"].map(str::to_owned);
        lists.take(&names, read, &names.clone().into())
    }

    fn denied(lists: &SharedLists) -> Vec<String> {
        let wanted = lists.wanted(&[]).lists;
        let denied = wanted.get("deny").into_iter().flatten();
        denied.map(show).collect()
    }

    /// The host's configuration begins to share a list while others are read. No revision announces that list.
    #[test]
    fn list_that_is_shared_while_others_are_read_is_due_at_once() {
        let now = Instant::now();
        let mut lists = SharedLists::default();
        lists.done(&[Ok(()), Ok(())], 0, Vec::new(), now);
        read(&mut lists, 7, &[]);
        assert!(!lists.is_due(7, false, now));
        let names = ["bans", "deny"].map(str::to_owned);
        let both = Lists {
            revision: 7,
            born: 1,
            short: BTreeSet::new(),
            lists: vec![Ok(Vec::new()), Ok(Vec::new())],
        };
        let shared = ["bans", "deny", "gold"].map(str::to_owned).into();
        lists.take(&names, both, &shared);
        assert!(lists.is_due(7, false, now), "gold is not read yet");
    }

    /// Lost are: all data, with a change since or without; the latest changes; and a list that was evicted.
    #[test]
    fn lists_that_the_store_has_lost_stay_and_are_put_back() {
        let [first, second] = ["192.0.2.0/24", "192.0.3.0/24"].map(entry);
        let both = [first.clone(), second.clone()];
        for (revision, born, short) in
            [(0, 0, &[][..]), (9, 8, &[]), (6, 1, &[]), (7, 1, &["deny"])]
        {
            let mut lists = SharedLists::default();
            assert_eq!(read(&mut lists, 7, &both), [""; 0]);
            assert!(lists.lost.is_none() && lists.may_change(Instant::now()));
            let lines = read_of(&mut lists, revision, born, short, &both[1..]);
            assert!(
                lines[0].contains("the 2 prefixes that are missing"),
                "{lines:?}"
            );
            assert_eq!(denied(&lists), ["192.0.2.0/24", "192.0.3.0/24"]);
            let lost = lists.lost.as_ref().unwrap();
            assert_eq!((lost.known, &lost.entries["deny"][..]), (7, &both[..1]));
            assert!(!lists.may_change(Instant::now()), "before they are back");
            // The connection is lost before they are back: they are put back after the next reading.
            read_of(&mut lists, revision, born, short, &both[1..]);
            let lost = lists.lost.as_ref().unwrap();
            assert_eq!((lost.known, &lost.entries["deny"][..]), (7, &both[..1]));
            // An agent has put them back. Then the store is believed again.
            lists.lost = None;
            read_of(&mut lists, 10, born.max(1), &[], &both);
            read_of(&mut lists, 11, born.max(1), &[], &both[1..]);
            assert!(lists.lost.is_none());
            assert_eq!(denied(&lists), ["192.0.3.0/24"]);
        }
    }

    /// The agent has been started after the loss. It cannot put anything back.
    #[test]
    fn unknown_lists_stay_in_force_until_the_store_has_some() {
        let mut lists = SharedLists::default();
        read_of(&mut lists, 0, 0, &[], &[]);
        assert!(lists.lost.is_none() && lists.listed("deny", Instant::now()).is_some());
        let wanted = lists.wanted(&[]);
        assert!(wanted.lists.is_empty() && wanted.bans.is_none());
        let mut lists = SharedLists::default();
        let lines = read_of(&mut lists, 7, 1, &["bans", "deny"], &[]);
        assert!(lines[0].contains("add the missing ones again"), "{lines:?}");
        let wanted = lists.wanted(&[]);
        assert!(wanted.lists.is_empty() && wanted.bans.is_none());
        let now = Instant::now();
        assert!(!lists.may_change(now) && lists.may_change(now + GIVEN_UP));
        assert_eq!(lists.known_birth(), 0);
        let entries = ["192.0.2.0/24"].map(entry);
        assert_eq!(read_of(&mut lists, 9, 1, &[], &entries), [""; 0]);
        assert!(lists.lost.is_none());
        assert_eq!(denied(&lists), ["192.0.2.0/24"]);
    }

    #[test]
    fn denied_and_banned_prefixes_that_cover_the_store_are_left_out() {
        let all = ["0.0.0.0/0", "192.0.2.0/24", "192.0.2.8/32", "2001:db8::/32"];
        let all = all.map(|prefix| prefix.parse().unwrap());
        let store = ["192.0.2.7".parse().unwrap()];
        assert_eq!(
            all.map(|prefix| cuts_off("deny", &prefix, &store)),
            [true, true, false, false]
        );
        assert_eq!(
            all.map(|prefix| cuts_off("gold", &prefix, &store)),
            [false; 4]
        );
        assert_eq!(
            all.map(|prefix| cuts_off("bans", &prefix, &store))[1..3],
            [true, false]
        );
        let mut lists = SharedLists::default();
        let entries = ["192.0.2.0/24", "192.0.2.8/32"].map(entry);
        read(&mut lists, 1, &entries);
        let wanted = lists.wanted(&store);
        assert_eq!(
            wanted.lists,
            [("deny".to_owned(), [entries[1].prefix].into())].into()
        );
        assert_eq!(wanted.bans.unwrap(), entries[1..]);
        assert_eq!(
            SharedLists::default().wanted(&store).bans,
            None,
            "not read yet"
        );
        let left_out = wanted.left_out.unwrap();
        let begin = "192.0.2.0/24 on the fleet's deny is not in force here: ";
        assert!(left_out.starts_with(begin), "{left_out}");
    }

    #[test]
    fn slow_or_failed_change_is_followed_by_a_pause() {
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let mut lists = SharedLists::default();
        let begins = |lists: &mut SharedLists, seconds| {
            lists.is_pending = true;
            lists.begin(later(seconds))
        };
        assert!(begins(&mut lists, 0));
        assert!(!begins(&mut lists, 0), "under way");
        assert_eq!(lists.done(&[Ok(()), Ok(())], 0, vec![], now), [""; 0]);
        let store = vec!["0.0.0.0/0 on the fleet's deny is not in force".to_owned()];
        assert!(begins(&mut lists, 0));
        let lines = lists.done(&[Ok(()), Ok(())], 0, store.clone(), later(60));
        assert!(lines[0].contains("0.0.0.0/0"), "{lines:?}");
        assert!(
            !begins(&mut lists, 119),
            "a change of a minute needs a pause"
        );
        // A command that waits needs none.
        let (answer, _command) = oneshot::channel();
        let changed = Changed::default();
        let is_ban = false;
        lists.waiting.push(Waiting {
            changed,
            is_ban,
            answer,
        });
        assert!(begins(&mut lists, 119));
        let failed = [Err("no".to_owned()), Ok(())];
        assert_eq!(lists.done(&failed, 0, store.clone(), later(119)).len(), 1);
        assert!(lists.waiting.is_empty() && lists.is_pending);
        assert!(!begins(&mut lists, 123) && begins(&mut lists, 124));
        assert_eq!(lists.done(&failed, 0, store.clone(), later(124)), [""; 0]);
    }
}
