//! The lists of a fleet: read when the store says that they have changed, put in force on each interface, and taken
//! off again when their time is over.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::{Duration, Instant},
};

use ipnet::IpNet;

use crate::{
    host::{DENY, OnLists},
    status::Listed,
    store::{Entry, Lists},
    text::{counted, show},
};

/// After which hosts put back what the store has lost: all that are there have seen by then that it is lost. They do so
/// within as much again, and try again after twice as much.
const RESTORE: Duration = Duration::from_secs(1);

/// What is known of the lists that one attachment shares.
#[derive(Debug, Default)]
pub struct Known {
    /// The revision that was read; none before the first.
    pub revision: Option<u64>,
    /// The last one that was read, whatever is to be read again: 0 before the first.
    latest: u64,
    lists: BTreeMap<String, BTreeMap<IpNet, Kept>>,
    /// When to put back what the store has lost.
    restoring: Option<Instant>,
    /// Something is on a list that was not put in force.
    pub is_pending: bool,
}

#[derive(Debug)]
struct Kept {
    by: String,
    since: Instant,
    until: Option<Instant>,
}

impl Kept {
    fn new(entry: Entry, now: Instant) -> (IpNet, Self) {
        let kept = Self {
            by: entry.by,
            since: now.checked_sub(entry.age).unwrap_or(now),
            until: entry.left.and_then(|left| now.checked_add(left)),
        };
        (entry.prefix, kept)
    }

    fn entry(&self, prefix: IpNet, now: Instant) -> Entry {
        let left = |until: Instant| until.saturating_duration_since(now);
        Entry {
            prefix,
            by: self.by.clone(),
            age: now.saturating_duration_since(self.since),
            left: self.until.map(left),
        }
    }
}

impl Known {
    /// Takes in what was read. Returns what is wrong with lists that stay as they were.
    ///
    /// Revisions only grow. A store with a lower one has lost what came after that: what is missing there stays in force,
    /// and is put back.
    pub fn take(&mut self, names: &[String], read: Lists, now: Instant) -> Vec<String> {
        let has_lost = read.revision < self.latest;
        self.revision = Some(read.revision);
        self.latest = read.revision;
        self.is_pending = true;
        let mut wrong = Vec::new();
        let mut lost = 0;
        for (name, entries) in names.iter().zip(read.lists) {
            let entries = match entries {
                Ok(entries) => entries.into_iter().map(|entry| Kept::new(entry, now)),
                Err(error) => {
                    wrong.push(error.to_string());
                    continue;
                }
            };
            let list = self.lists.entry(name.clone()).or_default();
            let before = std::mem::replace(list, entries.collect());
            if has_lost || self.restoring.is_some() {
                for (prefix, kept) in before {
                    lost += u64::from(!list.contains_key(&prefix));
                    list.entry(prefix).or_insert(kept);
                }
            }
        }
        self.lists.retain(|name, _| names.contains(name));
        if has_lost && lost > 0 {
            // Not all hosts at the same moment: most of them find that one of the others has done it.
            self.restoring = now.checked_add(RESTORE.mul_f64(1.0 + fastrand::f64()));
            wrong.push(format!(
                "the store has lost {} of the fleet's lists: they stay in force here, and are put back",
                counted(lost, "prefix")
            ));
        }
        wrong
    }

    /// All that is on the lists, when it is time to put back what the store has lost of it.
    pub fn lost(&mut self, now: Instant) -> Vec<(String, Vec<Entry>)> {
        if self.restoring.is_none_or(|then| then > now) {
            return Vec::new();
        }
        self.restoring = now.checked_add(2 * RESTORE);
        let lists = self.lists.iter();
        let all = lists.map(|(name, list)| {
            let entries = list.iter().map(|(prefix, kept)| kept.entry(*prefix, now));
            (name.clone(), entries.collect())
        });
        all.collect()
    }

    /// It was put back. What somebody has removed meanwhile is seen when the lists are read again.
    pub fn restored(&mut self) {
        self.restoring = None;
        self.revision = None;
    }

    /// Takes off what is over at this moment. Returns the lists that this has changed.
    pub fn expire(&mut self, now: Instant) -> Vec<String> {
        let mut changed = Vec::new();
        for (name, kept) in &mut self.lists {
            let before = kept.len();
            kept.retain(|_, kept| kept.until.is_none_or(|until| until > now));
            if kept.len() < before {
                changed.push(name.clone());
                self.is_pending = true;
            }
        }
        changed
    }

    /// What the fleet wants on the lists; and what of it is left out, because the store has these addresses.
    pub fn wanted(&self, store_at: &[IpAddr]) -> (OnLists, Vec<IpNet>) {
        let mut left_out = Vec::new();
        let mut wanted = OnLists::new();
        for (name, kept) in &self.lists {
            let list = wanted.entry(name.clone()).or_default();
            for prefix in kept.keys() {
                if cuts_off(name, prefix, store_at) {
                    left_out.push(*prefix);
                } else {
                    list.insert(*prefix);
                }
            }
        }
        (wanted, left_out)
    }

    /// As `list` shows it; nothing where nothing has been read.
    pub fn listed(&self, name: &str, now: Instant) -> Option<Vec<Listed>> {
        let listed = self.lists.get(name)?.iter().map(|(prefix, kept)| {
            let entry = kept.entry(*prefix, now);
            Listed {
                prefix: show(prefix),
                by: entry.by,
                age_seconds: entry.age.as_secs_f64(),
                left_seconds: entry.left.map(|left| left.as_secs_f64()),
            }
        });
        Some(listed.collect())
    }
}

/// Whether a host that has the prefix on this list hears of the store no more, and so never that it is taken off again.
pub fn cuts_off(list: &str, prefix: &IpNet, store_at: &[IpAddr]) -> bool {
    list == DENY && store_at.iter().any(|address| prefix.contains(address))
}

/// Taking what is over out of the store. Nobody waits for that, and all hosts know of it at the same moment: each of them
/// waits for so long that one of them does it every [`Clearing::EACH`], on average.
#[derive(Debug, Default)]
pub struct Clearing(HashMap<String, Instant>);

impl Clearing {
    const EACH: Duration = Duration::from_secs(2);

    /// Something is over on these lists, on all of so many hosts.
    pub fn is_over(&mut self, lists: Vec<String>, hosts: u32, now: Instant) {
        for list in lists {
            let wait = || now + (Self::EACH * hosts).mul_f64(fastrand::f64());
            self.0.entry(list).or_insert_with(wait);
        }
    }

    /// Lists that this host is to clear now.
    pub fn due(&mut self, now: Instant) -> Vec<String> {
        let due = self.0.extract_if(|_, at| *at <= now);
        due.map(|(list, _)| list).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(prefix: &str, left: Option<u64>) -> Entry {
        Entry {
            prefix: prefix.parse().expect("a prefix"),
            by: "a".to_owned(),
            age: Duration::from_secs(5),
            left: left.map(Duration::from_secs),
        }
    }

    #[test]
    fn what_has_a_time_goes_when_it_is_over() {
        let (mut known, now) = (Known::default(), Instant::now());
        let entries = vec![entry("192.0.2.1/32", Some(9)), entry("192.0.2.2/32", None)];
        let read = Lists {
            revision: 7,
            lists: vec![Ok(entries)],
        };
        assert_eq!(known.take(&["deny".to_owned()], read, now), [""; 0]);
        assert!(std::mem::take(&mut known.is_pending));
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(known.expire(later(8)), [""; 0]);
        assert!(!known.is_pending);
        let listed = known.listed("deny", later(8)).unwrap();
        assert_eq!(
            (listed[0].age_seconds, listed[0].left_seconds),
            (13.0, Some(1.0))
        );
        assert_eq!(known.wanted(&[]).0["deny"].len(), 2);
        assert_eq!(known.expire(later(9)), ["deny"]);
        assert!(known.is_pending);
        let left: Vec<_> = known.wanted(&[]).0["deny"]
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(left, ["192.0.2.2/32"]);
    }

    #[test]
    fn what_the_store_has_lost_stays_and_is_put_back() {
        let (mut known, now) = (Known::default(), Instant::now());
        let names = ["deny".to_owned()];
        let read = |revision, prefixes: &[(&str, Option<u64>)]| {
            let entries = prefixes.iter().map(|(prefix, left)| entry(prefix, *left));
            Lists {
                revision,
                lists: vec![Ok(entries.collect())],
            }
        };
        let wanted = |known: &Known| {
            let wanted = known.wanted(&[]).0;
            let texts: Vec<_> = wanted["deny"].iter().map(ToString::to_string).collect();
            texts.join(" ")
        };
        let [one, two, three] = ["192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32"];
        let all = [(one, None), (two, Some(9)), (three, None)];
        assert_eq!(known.take(&names, read(7, &all), now), [""; 0]);
        // Somebody has removed it.
        assert_eq!(known.take(&names, read(8, &all[..2]), now), [""; 0]);
        assert_eq!(wanted(&known), "192.0.2.1/32 192.0.2.2/32");
        let later = |seconds| now + Duration::from_secs(seconds);
        assert!(known.lost(later(99)).is_empty());
        // Nobody has.
        let said = known.take(&names, read(0, &[]), now);
        assert!(said[0].contains("has lost 2 prefixes"), "{said:?}");
        assert_eq!(wanted(&known), "192.0.2.1/32 192.0.2.2/32");
        assert!(known.lost(now).is_empty(), "not at once");
        // Another host has put one back.
        assert_eq!(known.take(&names, read(9, &all[..1]), now), [""; 0]);
        assert_eq!(wanted(&known), "192.0.2.1/32 192.0.2.2/32");
        let lost = known.lost(later(2));
        assert_eq!(lost[0].0, "deny");
        let of_two = &lost[0].1[1];
        assert_eq!(of_two.prefix, two.parse::<IpNet>().unwrap());
        let seconds = Duration::from_secs;
        assert_eq!((of_two.age, of_two.left), (seconds(7), Some(seconds(7))));
        assert!(known.lost(later(3)).is_empty(), "under way");
        assert_eq!(known.lost(later(4)).len(), 1, "again");
        known.restored();
        assert!(known.lost(later(99)).is_empty());
        // It is there again, and then removed.
        assert_eq!(known.take(&names, read(10, &all[..2]), now), [""; 0]);
        assert_eq!(known.take(&names, read(11, &[]), now), [""; 0]);
        assert_eq!(wanted(&known), "");
    }

    #[test]
    fn what_would_cut_off_the_store_is_left_out() {
        let (mut known, now) = (Known::default(), Instant::now());
        let all = ["0.0.0.0/0", "192.0.2.0/24", "192.0.2.8/32", "2001:db8::/32"];
        let lists = ["deny", "gold"].map(str::to_owned);
        let read = Lists {
            revision: 1,
            lists: (0..2)
                .map(|_| Ok(all.map(|prefix| entry(prefix, None)).to_vec()))
                .collect(),
        };
        known.take(&lists, read, now);
        let text = |prefix: &IpNet| prefix.to_string();
        let (wanted, left_out) = known.wanted(&["192.0.2.7".parse().unwrap()]);
        let left_out: Vec<_> = left_out.iter().map(text).collect();
        assert_eq!(left_out, all[..2]);
        assert_eq!(
            wanted["deny"].iter().map(text).collect::<Vec<_>>(),
            all[2..]
        );
        assert_eq!(wanted["gold"].len(), 4);
    }

    #[test]
    fn a_store_is_not_cleared_by_all_hosts_at_once() {
        let begin = Instant::now();
        let mut hosts: Vec<Clearing> = (0..1_000).map(|_| Clearing::default()).collect();
        let mut clears = 0;
        for second in 0..200 {
            let now = begin + Duration::from_secs(second);
            for host in &mut hosts {
                host.is_over(vec!["deny".to_owned()], 1_000, now);
                clears += host.due(now).len();
            }
        }
        // About a hundred.
        assert!((20..400).contains(&clears), "{clears}");
        let mut alone = Clearing::default();
        alone.is_over(vec!["deny".to_owned()], 1, begin);
        assert_eq!(alone.due(begin + Clearing::EACH), ["deny"]);
        assert_eq!(alone.due(begin + Clearing::EACH), [""; 0]);
    }
}
