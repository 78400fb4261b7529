//! The bans that a feed wants, by the news of its source: which news it believes.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ipnet::IpNet;

use crate::{
    Settings, coverage,
    host::{Own, OwnBy},
    left_out::LeftOut,
    source::{All, Fetched, Wanted},
    unconfirmed::Unconfirmed,
};

/// Bans that a list may change in a round, whatever `max-change` is.
const FEW: usize = 100;

/// The bans that a feed wants.
#[derive(Debug, Default)]
pub struct Wishes {
    /// The wanted bans.
    pub wanted: Wanted,
    /// Those of them that the last answer lacks.
    pub unconfirmed: Unconfirmed,
    /// Entries that the source has, and that no interface could ban.
    pub unusable: Vec<LeftOut>,
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
                let all = self.wanted.values_mut();
                all.for_each(|(end, _)| *end = Some(ends));
            }
            Fetched::Changes(changes) => {
                let mut new = self.wanted.clone();
                for (prefix, ..) in &changes.new {
                    self.unconfirmed.confirm(prefix);
                }
                for more in &changes.left_out {
                    let first = || more.first.clone();
                    LeftOut::add_many(&mut self.unusable, more.reason, more.entries, first);
                }
                changes.apply(&mut new);
                check_coverage(&new, settings)?;
                self.wanted = new;
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
            left_out,
            ended,
        } = all;
        check_coverage(&new, settings)?;
        let read = own
            .iter()
            .filter_map(|(name, own)| Some((name, own.as_ref().ok()?)));
        if settings.list.is_some() {
            for (interface, (own, _)) in read {
                self.check_change(interface, own, &new, settings)?;
            }
        } else {
            // Bans of an earlier process are known too.
            let now = Instant::now();
            let mut known = self.wanted.clone();
            for (prefix, left) in read.flat_map(|(_, (own, _))| own) {
                let ends = now.checked_add(Duration::from_millis(*left));
                known.entry(*prefix).or_insert((ends, String::new()));
            }
            self.unconfirmed.keep(&mut new, known, &ended, asked);
        }
        (self.wanted, self.unusable) = (new, left_out);
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
        let is_gone = |prefix: &&IpNet| !new.contains_key(prefix);
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
            .retain(|_, (ends, _)| ends.is_none_or(|ends| ends > now));
        self.unconfirmed.retain(&self.wanted);
    }

    /// The wanted bans without those of these prefixes.
    pub fn without(&self, prefixes: &BTreeSet<IpNet>) -> Wanted {
        let mut rest = self.wanted.clone();
        rest.retain(|prefix, _| !prefixes.contains(prefix));
        rest
    }
}

/// Fails if the wanted bans cover more than `max-coverage` allows.
fn check_coverage(new: &Wanted, settings: &Settings) -> Result<(), String> {
    let checked = coverage::check(new.keys(), settings.max_coverage);
    checked.map_err(|why| format!("{}: {why}", settings.shown()))
}
