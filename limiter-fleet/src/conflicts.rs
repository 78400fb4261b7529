//! Conflicts: limits of one name whose settings differ between the hosts of a fleet.

use std::collections::{BTreeMap, BTreeSet};

/// A limit that a host shares, as that host holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Its name.
    pub name: String,
    /// What it takes for one source.
    pub key: String,
    /// Cost of a packet, in ticks.
    pub cost: u64,
    /// Depth of the bucket, in ticks.
    pub tau: u64,
    /// The same in words, as `status` has them.
    pub words: String,
}

impl Held {
    /// Whether both are the same limit. `60/m` and `1/s` are.
    fn is_as(&self, other: &Self) -> bool {
        let what = |held: &Self| (held.name.clone(), held.key.clone(), held.cost, held.tau);
        what(self) == what(other)
    }
}

/// How the limits of a host and those of the others differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Limits whose settings differ on other hosts, by name: the other settings in words.
    pub conflicts: BTreeMap<String, BTreeSet<String>>,
    /// Limits of others that are not on this host.
    pub missing: BTreeSet<String>,
}

impl Conflicts {
    /// Between what this host holds and what `all` do.
    #[must_use]
    pub fn new(own: &[Held], all: &[Held]) -> Self {
        let mut found = Self::default();
        for other in all {
            match own.iter().find(|held| held.name == other.name) {
                None => {
                    found.missing.insert(other.name.clone());
                }
                Some(held) if !held.is_as(other) => {
                    let words = found.conflicts.entry(other.name.clone());
                    words.or_default().insert(other.words.clone());
                }
                Some(_) => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(name: &str, cost: u64, words: &str) -> Held {
        Held {
            name: name.to_owned(),
            key: "/32,/64".to_owned(),
            cost,
            tau: 100,
            words: words.to_owned(),
        }
    }

    #[test]
    fn what_is_the_same_in_other_words_is_no_difference() {
        let own = [held("all", 60, "1/s")];
        let same = [held("all", 60, "60/m"), held("all", 60, "1/s")];
        assert_eq!(Conflicts::new(&own, &same), Conflicts::default());
        assert_eq!(Conflicts::new(&own, &[]), Conflicts::default());
    }

    #[test]
    fn what_differs_is_named() {
        let own = [held("all", 60, "1/s"), held("dns", 1, "60/s")];
        let key = Held {
            key: "/24,/64".to_owned(),
            ..held("dns", 1, "60/s per /24")
        };
        let depth = Held {
            tau: 101,
            ..held("dns", 1, "60/s burst 9")
        };
        let all = [
            own[0].clone(),
            held("all", 30, "2/s"),
            held("al", 60, "1/s"),
            key,
            depth,
        ];
        let Conflicts { conflicts, missing } = Conflicts::new(&own, &all);
        let words = |name: &str| {
            conflicts[name]
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
        };
        assert_eq!(conflicts.len(), 2);
        assert_eq!(words("all"), ["2/s"]);
        assert_eq!(words("dns"), ["60/s burst 9", "60/s per /24"]);
        assert_eq!(missing.into_iter().collect::<Vec<_>>(), ["al"]);
    }
}
