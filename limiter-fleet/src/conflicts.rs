//! Conflicts: limits of one name with different settings on the hosts of a fleet.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// Time for which settings must differ before they are reported. After a change, the store keeps the host's old
/// settings for 3 seconds.
const SETTLED: Duration = Duration::from_secs(4);

/// A shared limit with the settings of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Name of the limit.
    pub name: String,
    /// Key, cost of a packet and depth of the bucket in ticks: `/32,/64 7 8`. `60/m` and `1/s` with a burst of 5 are
    /// the same.
    pub quota: String,
    /// The settings in words, as in `status`.
    pub words: String,
}

/// Limits of other hosts that this host does not have with these settings.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// Time at which each difference was first seen.
    since: BTreeMap<Held, Instant>,
    /// Differences that have lasted long enough, and whether this host has a limit of that name.
    settled: BTreeMap<Held, bool>,
}

impl Conflicts {
    /// Updates the conflicts from this host's limits and from `all` hosts' limits. Returns lines about new conflicts.
    pub fn update(&mut self, own: &[Held], all: &[Held], fleet: &str, now: Instant) -> Vec<String> {
        let is_own = |held: &&Held| {
            let mut own = own.iter();
            own.any(|own| own.name == held.name && own.quota == held.quota)
        };
        let since = |held: &Held| self.since.get(held).copied().unwrap_or(now);
        let others = all.iter().filter(|held| !is_own(held));
        self.since = others.map(|held| (held.clone(), since(held))).collect();
        let is_here = |held: &Held| own.iter().any(|own| own.name == held.name);
        let all = self.since.iter();
        let settled = all.filter(|(_, since)| **since + SETTLED <= now);
        let settled = settled.map(|(held, _)| (held.clone(), is_here(held)));
        let before = std::mem::replace(&mut self.settled, settled.collect());
        let mut lines = Vec::new();
        for (Held { name, .. }, is_here) in &self.settled {
            let is_new = before.keys().all(|before| before.name != *name);
            let line = match is_here {
                true => format!(
                    "other hosts of fleet '{fleet}' have other settings for the limit '{name}': `limiter status` shows them; make them equal on all hosts"
                ),
                false => format!(
                    "other hosts of fleet '{fleet}' share a limit '{name}', which this host does not have"
                ),
            };
            if is_new && !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    /// Settings of other hosts, in words, that differ for the limit of this name.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let conflicts = self.settled.keys().filter(move |held| held.name == name);
        conflicts.map(|held| held.words.clone())
    }

    /// Names of limits that other hosts share and this host does not have.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.settled.iter().filter(|(_, is_here)| !**is_here);
        let mut names: Vec<_> = missing.map(|(held, _)| held.name.clone()).collect();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(name: &str, quota: &str, words: &str) -> Held {
        let [name, quota, words] = [name, quota, words].map(str::to_owned);
        Held { name, quota, words }
    }

    #[test]
    fn a_conflict_is_named_and_reported_once() {
        let own = [held("all", "/32 60", "1/s"), held("dns", "/32 1", "60/s")];
        let all = [
            held("all", "/32 60", "60/m"),
            held("all", "/32 30", "2/s"),
            held("al", "/32 60", "1/s"),
            held("dns", "/24 1", "60/s per /24"),
            held("dns", "/32 1 9", "60/s burst 9"),
        ];
        let (mut conflicts, start) = (Conflicts::default(), Instant::now());
        let update = |conflicts: &mut Conflicts, all: &[Held], second| {
            conflicts.update(&own, all, "edge", start + Duration::from_secs(second))
        };
        assert_eq!(update(&mut conflicts, &all, 1), [""; 0], "too soon");
        let lines = update(&mut conflicts, &all, 10);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("share a limit 'al'"), "{lines:?}");
        assert!(lines[1].contains("other settings for the limit 'all'"));
        assert_eq!(update(&mut conflicts, &all, 11), [""; 0], "again");
        let found = |name| conflicts.of(name).collect::<Vec<_>>();
        assert_eq!(found("all"), ["2/s"]);
        assert_eq!(found("dns"), ["60/s per /24", "60/s burst 9"]);
        assert_eq!(conflicts.missing(), ["al"]);
        // The conflict ends at once, and is reported again when it returns.
        update(&mut conflicts, &own, 12);
        assert_eq!(conflicts.of("all").count() + conflicts.missing().len(), 0);
        update(&mut conflicts, &all, 13);
        assert_eq!(update(&mut conflicts, &all, 20).len(), 3);
    }
}
