//! The origin of prefixes on this host's lists: who added them, and when.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Lists, lists::Prefixes};

/// The author of a prefix on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    /// The configuration file.
    File,
    /// A command.
    Command,
    /// Another host of the fleet, or this one through the fleet.
    Fleet,
}

impl By {
    /// The author's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Command => "command",
            Self::Fleet => "fleet",
        }
    }
}

/// The origin of a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The author of the prefix.
    pub by: By,
    /// Time of the addition, RFC 3339.
    pub since: String,
}

/// The origins of all prefixes on this host's own lists, by the list's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origins(BTreeMap<String, OfList>);

/// The origins of one list. A file of a million prefixes has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct OfList {
    /// The origin of every prefix that is not in `added`; `None` if an earlier version added them.
    most: Option<Origin>,
    /// Prefixes that commands added later, by time (RFC 3339).
    added: BTreeMap<String, Prefixes>,
}

impl Origins {
    /// Gives all prefixes of `lists` one origin.
    pub fn new(lists: &Lists, by: By, since: &str) -> Self {
        let names = lists.all().map(|(name, _)| name.to_owned());
        Self(names.map(|name| (name, OfList::new(by, since))).collect())
    }

    /// The origins after a command has changed the lists.
    pub fn edited(mut self, old: &Lists, new: &Lists, now: &str) -> Self {
        let mut before: BTreeMap<_, _> = old.all().collect();
        let edited = new.all().map(|(name, prefixes)| {
            let origins = self.0.remove(name).unwrap_or_default();
            let origins = match before.remove(name) {
                Some(old) => origins.edited(old, prefixes, now),
                None => OfList::new(By::Command, now),
            };
            (name.to_owned(), origins)
        });
        Self(edited.collect())
    }

    /// The origin of a prefix that is on a list; `None` if it is unknown.
    pub fn of(&self, list: &str, prefix: &IpNet) -> Option<Origin> {
        let OfList { most, added } = self.0.get(list)?;
        let added = added.iter().find(|(_, prefixes)| prefixes.contains(prefix));
        let by_command = added.map(|(since, _)| Origin {
            by: By::Command,
            since: since.clone(),
        });
        by_command.or_else(|| most.clone())
    }
}

impl OfList {
    fn new(by: By, since: &str) -> Self {
        let since = since.to_owned();
        Self {
            most: Some(Origin { by, since }),
            added: BTreeMap::new(),
        }
    }

    fn edited(mut self, old: &Prefixes, new: &Prefixes, now: &str) -> Self {
        if old == new {
            return self;
        }
        if old.is_disjoint(new) {
            return Self::new(By::Command, now);
        }
        for prefixes in self.added.values_mut() {
            prefixes.retain(|prefix| new.contains(prefix));
        }
        let added = new.difference(old);
        self.added.entry(now.to_owned()).or_default().extend(added);
        self.added.retain(|_, prefixes| !prefixes.is_empty());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::lists::prefix;

    fn denied(texts: &[&str]) -> Lists {
        Lists {
            deny: texts.iter().map(|text| prefix(text).unwrap()).collect(),
            ..Lists::default()
        }
    }

    fn origin(origins: &Origins, text: &str) -> Option<(By, String)> {
        let origin = origins.of("deny", &prefix(text).unwrap());
        origin.map(|origin| (origin.by, origin.since))
    }

    #[test]
    fn command_changes_only_the_origin_of_its_prefixes() {
        let (file, more) = (
            denied(&["10.0.0.0/8"]),
            denied(&["10.0.0.0/8", "192.0.2.7"]),
        );
        let origins = Origins::new(&file, By::File, "1").edited(&file, &more, "2");
        let of_file = Some((By::File, "1".to_owned()));
        assert_eq!(origin(&origins, "10.0.0.0/8"), of_file);
        let of_command = |time: &str| Some((By::Command, time.to_owned()));
        assert_eq!(origin(&origins, "192.0.2.7"), of_command("2"));
        let same = origins.clone().edited(&more, &more, "3");
        assert_eq!(same, origins);

        // A prefix that was removed and added again has the time of the second addition.
        let again = origins.edited(&more, &file, "3").edited(&file, &more, "4");
        assert_eq!(origin(&again, "192.0.2.7"), of_command("4"));
        assert_eq!(origin(&again, "10.0.0.0/8"), of_file);
    }

    #[test]
    fn replaced_list_has_one_origin() {
        let (old, new) = (denied(&["10.0.0.0/8"]), denied(&["192.0.2.7", "192.0.2.8"]));
        let origins = Origins::new(&old, By::File, "1").edited(&old, &new, "2");
        assert_eq!(origins.0["deny"], OfList::new(By::Command, "2"));
    }

    #[test]
    fn origin_that_an_earlier_version_did_not_record_is_unknown() {
        let (old, new) = (
            denied(&["10.0.0.0/8"]),
            denied(&["10.0.0.0/8", "192.0.2.7"]),
        );
        let origins = Origins::default().edited(&old, &new, "2");
        assert_eq!(origin(&origins, "10.0.0.0/8"), None);
        assert_eq!(
            origin(&origins, "192.0.2.7"),
            Some((By::Command, "2".to_owned()))
        );
    }
}
