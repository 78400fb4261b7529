//! The lists of a fleet. They are read when the store announces a change, put in force on each interface, and removed
//! when they expire.

use std::{
    collections::BTreeMap,
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

/// Time before hosts restore lists that the store has lost: by then, all connected hosts have noticed the loss. Hosts
/// restore at a random time between once and twice this time, and retry after twice this time.
const RESTORE: Duration = Duration::from_secs(1);

/// The lists that one attachment shares.
#[derive(Debug, Default)]
pub struct Known {
    /// The revision that was read; none before the first reading.
    pub revision: Option<u64>,
    /// The last revision that was read, even if the lists must be read again; 0 before the first reading.
    latest: u64,
    lists: BTreeMap<String, BTreeMap<IpNet, Kept>>,
    /// Time to restore lists that the store has lost.
    restoring: Option<Instant>,
    /// True if some of the lists' entries are not in force yet.
    pub is_pending: bool,
}

/// An entry, and the time at which it was read.
#[derive(Debug)]
struct Kept {
    entry: Entry,
    at: Instant,
}

impl Kept {
    /// The entry with its age and the time left at `now`.
    fn aged(&self, now: Instant) -> Entry {
        let since = now.saturating_duration_since(self.at);
        let left = |left: Duration| left.saturating_sub(since);
        Entry {
            age: self.entry.age + since,
            left: self.entry.left.map(left),
            ..self.entry.clone()
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at);
        self.entry.left.is_some_and(|left| left <= since)
    }
}

impl Known {
    /// Stores the lists that were read. Returns errors of lists that stay unchanged.
    ///
    /// Revisions only grow. A store with a lower revision has lost the later entries: missing entries stay in force
    /// and are restored.
    pub fn take(&mut self, names: &[String], read: Lists, now: Instant) -> Vec<String> {
        let has_lost = read.revision < self.latest;
        self.revision = Some(read.revision);
        self.latest = read.revision;
        self.is_pending = true;
        let mut wrong = Vec::new();
        let mut lost = 0;
        for (name, entries) in names.iter().zip(read.lists) {
            let entries = match entries {
                Ok(entries) => entries
                    .into_iter()
                    .map(|entry| (entry.prefix, Kept { entry, at: now })),
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
            // Hosts restore at different times, so that most of them find that another host has done it.
            self.restoring = now.checked_add(RESTORE.mul_f64(1.0 + fastrand::f64()));
            wrong.push(format!(
                "the store has lost {} of the fleet's lists: they stay in force here, and are put back",
                counted(lost, "prefix")
            ));
        }
        wrong
    }

    /// All entries of the lists, if it is time to restore lists that the store has lost.
    pub fn lost(&mut self, now: Instant) -> Vec<(String, Vec<Entry>)> {
        if self.restoring.is_none_or(|then| then > now) {
            return Vec::new();
        }
        self.restoring = now.checked_add(2 * RESTORE);
        let lists = self.lists.iter();
        let all = lists.map(|(name, list)| {
            let entries = list.values().map(|kept| kept.aged(now));
            (name.clone(), entries.collect())
        });
        all.collect()
    }

    /// Notes that the lists were restored. Entries removed in the meantime are seen when the lists are read again.
    pub fn restored(&mut self) {
        self.restoring = None;
        self.revision = None;
    }

    /// Removes the entries that have expired, whether or not the store answers.
    pub fn expire(&mut self, now: Instant) {
        for kept in self.lists.values_mut() {
            let before = kept.len();
            kept.retain(|_, kept| !kept.is_over(now));
            self.is_pending |= kept.len() < before;
        }
    }

    /// The fleet's entries to put in force, and the entries left out because they contain the store's addresses.
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

    /// The entries as `list` shows them; none if nothing has been read.
    pub fn listed(&self, name: &str, now: Instant) -> Option<Vec<Listed>> {
        let listed = self.lists.get(name)?.values().map(|kept| {
            let entry = kept.aged(now);
            Listed {
                prefix: show(&entry.prefix),
                by: entry.by,
                age_seconds: entry.age.as_secs_f64(),
                left_seconds: entry.left.map(|left| left.as_secs_f64()),
            }
        });
        Some(listed.collect())
    }
}

/// Returns true if a prefix on this list would cut the host off from the store, and so from the news of its removal.
pub fn cuts_off(list: &str, prefix: &IpNet, store_at: &[IpAddr]) -> bool {
    list == DENY && store_at.iter().any(|address| prefix.contains(address))
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
    fn entry_with_a_deadline_is_removed_when_it_expires() {
        let (mut known, now) = (Known::default(), Instant::now());
        let entries = vec![entry("192.0.2.1/32", Some(9)), entry("192.0.2.2/32", None)];
        let read = Lists {
            revision: 7,
            lists: vec![Ok(entries)],
        };
        assert_eq!(known.take(&["deny".to_owned()], read, now), [""; 0]);
        assert!(std::mem::take(&mut known.is_pending));
        let later = |seconds| now + Duration::from_secs(seconds);
        known.expire(later(8));
        assert!(!known.is_pending);
        let listed = known.listed("deny", later(8)).unwrap();
        assert_eq!(
            (listed[0].age_seconds, listed[0].left_seconds),
            (13.0, Some(1.0))
        );
        assert_eq!(known.wanted(&[]).0["deny"].len(), 2);
        known.expire(later(9));
        assert!(known.is_pending);
        let left: Vec<_> = known.wanted(&[]).0["deny"]
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(left, ["192.0.2.2/32"]);
    }

    #[test]
    fn prefixes_lost_by_the_store_stay_and_are_written_back() {
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
        // A user has removed the entry.
        assert_eq!(known.take(&names, read(8, &all[..2]), now), [""; 0]);
        assert_eq!(wanted(&known), "192.0.2.1/32 192.0.2.2/32");
        let later = |seconds| now + Duration::from_secs(seconds);
        assert!(known.lost(later(99)).is_empty());
        // The store has lost the entries.
        let lines = known.take(&names, read(0, &[]), now);
        assert!(lines[0].contains("has lost 2 prefixes"), "{lines:?}");
        assert_eq!(wanted(&known), "192.0.2.1/32 192.0.2.2/32");
        assert!(known.lost(now).is_empty(), "not at once");
        // Another host has restored one entry.
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
        // The entry is there again, and then removed.
        assert_eq!(known.take(&names, read(10, &all[..2]), now), [""; 0]);
        assert_eq!(known.take(&names, read(11, &[]), now), [""; 0]);
        assert_eq!(wanted(&known), "");
    }

    #[test]
    fn deny_prefixes_that_cover_the_store_are_left_out() {
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
}
