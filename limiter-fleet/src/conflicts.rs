//! Conflicts: limits of one name whose settings differ between the hosts of a fleet.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How long settings must differ before that is told. The store keeps what a host has said for three seconds: what was
/// just changed is no conflict with what it was.
const SETTLED: Duration = Duration::from_secs(4);

/// A limit that a host shares, as that host holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Its name.
    pub name: String,
    /// Key, cost of a packet and depth of the bucket in ticks: `/32,/64 7 8`. `60/m` and `1/s` are the same.
    pub terms: String,
    /// The same in words, as `status` has them.
    pub words: String,
}

/// Limits that other hosts hold, and this one does not.
#[derive(Debug, Default)]
pub struct Conflicts {
    /// Since when.
    since: BTreeMap<Held, Instant>,
    /// Whether there is a limit of that name here, for those that differ for long enough.
    settled: BTreeMap<Held, bool>,
}

impl Conflicts {
    /// Takes in what this host holds and what `all` do. Returns lines about what is a conflict from now on.
    pub fn update(&mut self, own: &[Held], all: &[Held], fleet: &str, now: Instant) -> Vec<String> {
        let is_own = |held: &Held| {
            let is = |own: &Held| own.name == held.name && own.terms == held.terms;
            own.iter().any(is)
        };
        let others = all.iter().filter(|held| !is_own(held));
        let since = |held: &Held| self.since.get(held).copied().unwrap_or(now);
        self.since = others.map(|held| (held.clone(), since(held))).collect();
        let settled = self
            .since
            .iter()
            .filter(|(_, since)| **since + SETTLED <= now);
        let is_here = |held: &Held| own.iter().any(|own| own.name == held.name);
        let settled = settled
            .map(|(held, _)| (held.clone(), is_here(held)))
            .collect();
        let before = std::mem::replace(&mut self.settled, settled);
        let mut lines: Vec<_> = self
            .settled
            .iter()
            .filter(|(held, _)| before.keys().all(|before| before.name != held.name))
            .map(|(Held { name, .. }, is_here)| match is_here {
                true => format!(
                    "other hosts of fleet '{fleet}' have other settings for the limit '{name}': `limiter status` shows them; make them the same on all hosts"
                ),
                false => {
                    format!("other hosts of fleet '{fleet}' share a limit '{name}', which is not here")
                }
            })
            .collect();
        lines.dedup();
        lines
    }

    /// Other settings, in words, that other hosts have for the limit of this name.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let settled = self.settled.keys();
        settled
            .filter(move |held| held.name == name)
            .map(|held| held.words.clone())
    }

    /// Names of limits that other hosts share, and this one does not.
    #[must_use]
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

    fn held(name: &str, terms: &str, words: &str) -> Held {
        let [name, terms, words] = [name, terms, words].map(str::to_owned);
        Held { name, terms, words }
    }

    /// What is said when hosts hold this for a second, for ten, and for eleven.
    fn said(conflicts: &mut Conflicts, own: &[Held], all: &[Held]) -> [Vec<String>; 3] {
        let start = Instant::now();
        [1, 10, 11].map(|second| {
            let now = start + Duration::from_secs(second);
            conflicts.update(own, all, "edge", now)
        })
    }

    #[test]
    fn a_conflict_is_named_and_said_once() {
        let own = [held("all", "/32 60", "1/s"), held("dns", "/32 1", "60/s")];
        let all = [
            held("all", "/32 60", "60/m"),
            held("all", "/32 30", "2/s"),
            held("al", "/32 60", "1/s"),
            held("al", "/32 60", "60/m"),
            held("dns", "/24 1", "60/s per /24"),
            held("dns", "/32 1 9", "60/s burst 9"),
        ];
        let mut conflicts = Conflicts::default();
        let [soon, later, again] = said(&mut conflicts, &own, &all);
        assert!(soon.is_empty() && again.is_empty(), "{soon:?} {again:?}");
        assert_eq!(later.len(), 3, "{later:?}");
        assert!(later[0].contains("share a limit 'al'"), "{later:?}");
        assert!(
            later[1].contains("other settings for the limit 'all'"),
            "{later:?}"
        );
        let of = |name| conflicts.of(name).collect::<Vec<_>>();
        assert_eq!(of("all"), ["2/s"]);
        assert_eq!(of("dns"), ["60/s per /24", "60/s burst 9"]);
        assert_eq!(conflicts.missing(), ["al"]);
        // It is over at once, and said again when it comes again.
        conflicts.update(&own, &own, "edge", Instant::now());
        assert_eq!(conflicts.of("all").count() + conflicts.missing().len(), 0);
        assert_eq!(said(&mut conflicts, &own, &all)[1].len(), 3);
    }
}
