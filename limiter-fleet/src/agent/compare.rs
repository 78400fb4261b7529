//! Whether a limit of one name is the same on all hosts.

use std::time::{Duration, Instant};

use crate::conflicts::{Conflicts, Held};

/// How often a member compares.
const EVERY: Duration = Duration::from_secs(1);

/// What a member has told the others of its limits, and what they have told it.
#[derive(Debug)]
pub struct Compared {
    /// How theirs differ.
    pub conflicts: Conflicts,
    told: Vec<Held>,
    next: Instant,
    is_asking: bool,
}

impl Compared {
    /// With nothing.
    pub fn new(now: Instant) -> Self {
        Self {
            conflicts: Conflicts::default(),
            told: Vec::new(),
            next: now,
            is_asking: false,
        }
    }

    /// There is a connection again.
    pub fn begin_anew(&mut self, now: Instant) {
        (self.next, self.is_asking) = (now, false);
    }

    /// What others may take for what this member holds.
    pub fn told(&self) -> &[Held] {
        &self.told
    }

    /// Where it is time to tell it: what this member holds, and what it has told and does not hold any more.
    pub fn due(
        &mut self,
        now: Instant,
        held: impl FnOnce() -> Vec<Held>,
    ) -> Option<(Vec<Held>, Vec<Held>)> {
        if self.is_asking || now < self.next {
            return None;
        }
        (self.next, self.is_asking) = (now + EVERY, true);
        let held = held();
        let is_gone = |told: &Held| !held.contains(told);
        let gone: Vec<_> = self
            .told
            .iter()
            .filter(|told| is_gone(told))
            .cloned()
            .collect();
        self.told = [&held[..], &gone].concat();
        Some((held, gone))
    }

    /// It was not told.
    pub fn failed(&mut self) {
        self.is_asking = false;
    }

    /// It was told that it holds this, and that `all` do that. Returns what people should know, in a line each, with this
    /// before it: what differs since just now.
    pub fn answered(&mut self, held: Vec<Held>, all: &[Held], fleet: &str) -> Vec<String> {
        self.is_asking = false;
        let before = std::mem::replace(&mut self.conflicts, Conflicts::new(&held, all));
        self.told = held;
        let Conflicts { conflicts, missing } = &self.conflicts;
        let differ = conflicts
            .keys()
            .filter(|name| !before.conflicts.contains_key(*name));
        let differ = differ.map(|name| {
            format!(
                "other hosts of fleet '{fleet}' have other settings for the limit '{name}': `limiter status` shows them; make them the same on all hosts"
            )
        });
        let missing = missing.difference(&before.missing);
        let missing = missing.map(|name| {
            format!("other hosts of fleet '{fleet}' share a limit '{name}', which is not here")
        });
        differ.chain(missing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(name: &str, cost: u64) -> Held {
        Held {
            name: name.to_owned(),
            key: "/32,/64".to_owned(),
            cost,
            tau: 100,
            words: format!("cost {cost}"),
        }
    }

    #[test]
    fn what_was_changed_is_taken_back() {
        let start = Instant::now();
        let mut compared = Compared::new(start);
        let (old, new) = ([held("all", 1)], [held("all", 2)]);
        let due = |compared: &mut Compared, held: &[Held; 1], now| {
            let due = compared.due(now, || held.to_vec())?;
            assert_eq!(due.0, held);
            Some(due.1)
        };
        assert_eq!(due(&mut compared, &old, start), Some(vec![]));
        assert_eq!(due(&mut compared, &old, start + 2 * EVERY), None, "asking");
        compared.failed();
        assert_eq!(
            due(&mut compared, &new, start + EVERY / 2),
            None,
            "it has just asked"
        );
        // It may have been told all the same.
        assert_eq!(due(&mut compared, &new, start + EVERY), Some(old.to_vec()));
        assert_eq!(compared.told(), [new.clone(), old].concat());
        compared.answered(new.to_vec(), &new, "edge");
        assert_eq!(due(&mut compared, &new, start + 2 * EVERY), Some(vec![]));
        assert_eq!(compared.told(), new);
    }

    #[test]
    fn a_difference_is_said_once_until_it_is_gone() {
        let mut compared = Compared::new(Instant::now());
        let own = vec![held("all", 1)];
        let others = [held("all", 2), held("al", 1)];
        let mut says = |all: &[Held]| compared.answered(own.clone(), all, "edge");
        let lines = says(&others);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("other settings for the limit 'all'"),
            "{lines:?}"
        );
        assert!(lines[1].contains("share a limit 'al'"), "{lines:?}");
        assert!(says(&others).is_empty());
        assert!(says(&own).is_empty());
        assert_eq!(says(&others).len(), 2);
    }
}
