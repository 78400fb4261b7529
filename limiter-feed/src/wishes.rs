//! The bans that a feed wants, by the news of its source: which news it believes.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    time::{Duration, Instant},
};

use ipnet::IpNet;
use limiter_config::bans::Own;

use crate::{
    Settings, coverage,
    host::{OwnBy, ReadAs},
    left_out::LeftOut,
    source::{All, Fetched, Wanted, WantedBan},
    unconfirmed::Unconfirmed,
};

/// Bans that a list may change in a round, whatever `max-change` is.
const FEW: usize = 100;

/// The bans that a feed wants.
#[derive(Debug, Default)]
pub struct Wishes {
    /// The wanted bans.
    pub wanted: Wanted,
    /// Those of them that CrowdSec's local engine or a person has decided. If room is short, they come first.
    pub local: BTreeSet<IpNet>,
    /// Those of them that only throttle.
    pub throttled: BTreeSet<IpNet>,
    /// Those of them that the last answer lacks.
    pub unconfirmed: Unconfirmed,
    /// Entries that the source has, and that no interface could ban.
    pub unusable: Vec<LeftOut>,
    /// Ends that the list itself has.
    own_ends: BTreeMap<IpNet, Instant>,
    /// The format in which the list was read.
    pub read_as: Option<ReadAs>,
    /// True if the source has been read since the start: what it wants is known.
    pub is_known: bool,
}

impl Wishes {
    /// Takes the news that the source gave at the time `asked`, unless they are most likely a mistake. `own`: the bans in
    /// force.
    pub fn take(
        &mut self,
        news: Fetched,
        own: &OwnBy,
        asked: Instant,
        settings: &Settings,
    ) -> Result<(), String> {
        match news {
            Fetched::All(all) => self.take_all(all, own, asked, settings)?,
            Fetched::Same(ends) => {
                for (prefix, ban) in &mut self.wanted {
                    let own = self.own_ends.get(prefix);
                    ban.ends = Some(own.map_or(ends, |own| ends.min(*own)));
                }
            }
            Fetched::Changes(changes) => {
                let (mut new, mut throttled) = (self.wanted.clone(), self.throttled.clone());
                for decided in changes.new.iter().chain(&changes.throttles) {
                    self.unconfirmed.confirm(&decided.prefix);
                }
                for more in &changes.left_out {
                    let first = || more.first.clone();
                    LeftOut::add_many(&mut self.unusable, more.reason, more.entries, first);
                }
                self.local.extend(&changes.local);
                changes.apply(&mut new, &mut throttled);
                check_coverage(&new, settings)?;
                (self.wanted, self.throttled) = (new, throttled);
            }
        }
        self.is_known = true;
        Ok(())
    }

    fn take_all(
        &mut self,
        all: All,
        own: &OwnBy,
        asked: Instant,
        settings: &Settings,
    ) -> Result<(), String> {
        let All {
            wanted: mut new,
            local,
            mut throttled,
            left_out,
            ended,
            own_ends,
            read_as,
        } = all;
        check_coverage(&new, settings)?;
        let read = own
            .iter()
            .filter_map(|(name, own)| Some((name, own.as_ref().ok()?)));
        if settings.list.is_some() {
            for (interface, present) in read {
                self.check_change(interface, &present.own, &new, settings)?;
            }
        } else {
            // Bans of an earlier process are known too.
            let now = Instant::now();
            let mut known = self.wanted.clone();
            let reported: BTreeSet<_> = new.keys().copied().collect();
            let mut throttles = self.throttled.clone();
            for (prefix, own) in read.flat_map(|(_, present)| &present.own) {
                if own.is_throttle && !known.contains_key(prefix) {
                    throttles.insert(*prefix);
                }
                known.entry(*prefix).or_insert_with(|| WantedBan {
                    ends: now.checked_add(Duration::from_millis(own.left)),
                    ..WantedBan::default()
                });
            }
            self.unconfirmed.keep(&mut new, known, &ended, asked);
            let is_kept = |prefix: &&IpNet| new.contains_key(prefix) && !reported.contains(prefix);
            throttled.extend(throttles.iter().filter(is_kept).copied());
        }
        self.local.extend(&local);
        (self.wanted, self.unusable) = (new, left_out);
        self.throttled = throttled;
        (self.own_ends, self.read_as) = (own_ends, read_as);
        Ok(())
    }

    /// Fails if a list has changed so much that it is most likely broken: it lacks bans in force, or has many more
    /// entries than the last one that this process has read.
    fn check_change(
        &self,
        interface: &str,
        own: &Own,
        new: &Wanted,
        settings: &Settings,
    ) -> Result<(), String> {
        let most = |all: usize| FEW.max(all.saturating_mul(settings.max_change) / 100);
        let is_gone = |prefix: &&IpNet| !is_within(prefix, new);
        let removed = own.keys().filter(is_gone).count();
        let last = self.wanted.len();
        let is_right = removed <= most(own.len())
            && (last == 0 || new.len().saturating_sub(last) <= most(last));
        if is_right {
            return Ok(());
        }
        Err(format!(
            "{}: it has {} entries, and would remove {removed} of {} bans on {interface}, more than max-change = {} allows: read the list, and set max-change if it is right",
            settings.shown(),
            new.len(),
            own.len(),
            settings.max_change
        ))
    }

    /// Drops the bans that have ended at the time `now`.
    pub fn drop_ended(&mut self, now: Instant) {
        self.wanted
            .retain(|_, ban| ban.ends.is_none_or(|ends| ends > now));
        self.unconfirmed.retain(&self.wanted);
        self.local.retain(|prefix| self.wanted.contains_key(prefix));
        self.throttled
            .retain(|prefix| self.wanted.contains_key(prefix));
    }

    /// The wanted bans without those of these prefixes.
    pub fn without(&self, prefixes: &BTreeSet<IpNet>) -> Wanted {
        let mut rest = self.wanted.clone();
        rest.retain(|prefix, _| !prefixes.contains(prefix));
        rest
    }
}

/// Returns true if a prefix, or one around it, is wanted. Only a part of a prefix that the host needs is in force.
fn is_within(prefix: &IpNet, wanted: &Wanted) -> bool {
    around(prefix).any(|around| wanted.contains_key(&around))
}

/// A prefix, and those around it.
pub fn around(prefix: &IpNet) -> impl Iterator<Item = IpNet> {
    successors(Some(*prefix), IpNet::supernet)
}

/// Fails if the wanted bans cover more than `max-coverage` allows.
fn check_coverage(new: &Wanted, settings: &Settings) -> Result<(), String> {
    let checked = coverage::check(new.keys(), settings.max_coverage);
    checked.map_err(|why| format!("{}: {why}", settings.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_that_has_not_changed_lengthens_no_end_of_its_own() {
        let settings = Settings::parse("list = '/a'").expect("valid");
        let now = Instant::now();
        let [soon, later] = [100, 200].map(|seconds| now + Duration::from_secs(seconds));
        let [timed, kept]: [IpNet; 2] =
            ["192.0.2.1/32", "192.0.2.2/32"].map(|net| net.parse().expect("a prefix"));
        let wish = |net, ends| {
            let ban = WantedBan {
                ends: Some(ends),
                ..WantedBan::default()
            };
            (net, ban)
        };
        let all = All {
            wanted: [wish(timed, soon), wish(kept, soon)].into(),
            own_ends: [(timed, soon)].into(),
            ..All::default()
        };
        let mut wishes = Wishes::default();
        for news in [Fetched::All(all), Fetched::Same(later)] {
            let taken = wishes.take(news, &Vec::new(), now, &settings);
            assert_eq!(taken, Ok(()));
        }
        let ends = |net| wishes.wanted[net].ends;
        assert_eq!((ends(&timed), ends(&kept)), (Some(soon), Some(later)));
    }
}
