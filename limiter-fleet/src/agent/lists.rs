//! The lists of a fleet. They are read when the store announces a change, put in force on each interface, and removed
//! when they expire.

use std::{collections::BTreeMap, net::IpAddr, time::Instant};

use ipnet::IpNet;

use crate::{
    host::{DENY, OnLists},
    status::Listed,
    store::{Entry, Lists},
    text::show,
};

/// The lists that one attachment shares.
#[derive(Debug, Default)]
pub struct Known {
    /// The revision that was read; none before the first reading.
    pub revision: Option<u64>,
    /// The last revision that was read, even if the lists must be read again; 0 before the first reading.
    latest: u64,
    lists: BTreeMap<String, BTreeMap<IpNet, Kept>>,
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
    fn is_over(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at);
        self.entry.left.is_some_and(|left| left <= since)
    }
}

impl Known {
    /// Stores the lists that were read. Returns lines to report.
    pub fn take(&mut self, names: &[String], read: Lists, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        // Revisions only grow, unless the store has lost the later changes.
        if read.revision < self.latest {
            lines.push(
                "the store has lost changes of the fleet's lists: add the prefixes that are missing again".to_owned(),
            );
        }
        self.revision = Some(read.revision);
        self.latest = read.revision;
        self.is_pending = true;
        for (name, entries) in names.iter().zip(read.lists) {
            match entries {
                Ok(entries) => {
                    let kept = entries.into_iter();
                    let kept = kept.map(|entry| (entry.prefix, Kept { entry, at: now }));
                    self.lists.insert(name.clone(), kept.collect());
                }
                // The list stays unchanged.
                Err(error) => lines.push(error.to_string()),
            }
        }
        self.lists.retain(|name, _| names.contains(name));
        lines
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
        let listed = self.lists.get(name)?.values().map(|Kept { entry, at }| {
            let since = now.saturating_duration_since(*at);
            let left = entry.left.map(|left| left.saturating_sub(since));
            Listed {
                prefix: show(&entry.prefix),
                by: entry.by.clone(),
                age_seconds: (entry.age + since).as_secs_f64(),
                left_seconds: left.map(|left| left.as_secs_f64()),
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
    use std::time::Duration;

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
    fn loss_of_changes_is_reported_once() {
        let (mut known, now) = (Known::default(), Instant::now());
        let read = |revision| Lists {
            revision,
            lists: vec![Ok(Vec::new())],
        };
        for (revision, lines) in [(7, 0), (8, 0), (0, 1), (0, 0), (9, 0)] {
            let reported = known.take(&["deny".to_owned()], read(revision), now);
            assert_eq!(reported.len(), lines, "{revision}");
        }
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
