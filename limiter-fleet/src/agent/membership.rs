//! A member of a fleet in the agent: an attachment, its sources, and its exchange with the store.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    freshness::Freshness,
    run::{ALIVE, Options},
    shared_lists::SharedLists,
};
use crate::{
    conflicts::{Conflicts, Held},
    host::{About, Limit, Table},
    ledger::Record,
    member::{Member, Round},
    shared_quota::{self, Fleet, Quota},
    status::SharedLimit,
};

pub struct Membership<T> {
    /// Identifies the member among all others, as long as it lives.
    pub id: u64,
    pub label: String,
    table: T,
    pub member: Member,
    /// Number of members in the fleet.
    pub hosts: u32,
    /// True if the store has reported that number. Without it, the maximum debt of a bucket is not known.
    pub is_counted: bool,
    /// Time since which the store has reported fewer members.
    fewer_since: Option<Instant>,
    /// True if the configuration has changed since it was read.
    pub is_outdated: bool,
    pub freshness: Freshness,
    pub is_sending: bool,
    pub next_beat: Instant,
    pub is_beating: bool,
    pub conflicts: Conflicts,
    pub lists: SharedLists,
}

impl<T: Table> Membership<T> {
    pub fn new(table: T, options: &Options, now: Instant) -> Self {
        let about = table.about();
        Self {
            id: id(),
            label: format!("{}/{}", options.host, about.interface),
            member: Member::new(about.entries),
            table,
            hosts: 1,
            is_counted: false,
            fewer_since: None,
            is_outdated: false,
            freshness: Freshness::new(options.interval, now),
            is_sending: false,
            next_beat: now,
            is_beating: false,
            conflicts: Conflicts::default(),
            lists: SharedLists::default(),
        }
    }

    pub fn about(&self) -> &About {
        self.table.about()
    }

    pub fn fleet(&self) -> String {
        self.about().fleet.clone()
    }

    pub fn line(&self, text: &str) -> String {
        format!("{}: {text}", self.about().interface)
    }

    pub fn begin_anew(&mut self, now: Instant) {
        self.is_sending = false;
        self.is_beating = false;
        self.freshness.began = None;
        (self.lists.is_reading, self.lists.is_read) = (false, false);
        self.next_beat = now;
        self.fewer_since = None;
    }

    /// Takes the number of members from the store. Returns true if it has changed. A lower number counts if it stays
    /// for a while: a store that has just come back does not know all members yet.
    pub fn count(&mut self, hosts: u32, now: Instant) -> bool {
        self.is_counted = true;
        if hosts >= self.hosts {
            self.fewer_since = None;
        } else if *self.fewer_since.get_or_insert(now) + ALIVE > now {
            return false;
        }
        mem::replace(&mut self.hosts, hosts) != hosts
    }

    pub fn refresh(&mut self, table: T) {
        let (before, now) = (self.about(), table.about());
        let (has_changed, other_lists) = (before.program != now.program, before.lists != now.lists);
        self.lists.is_read &= !other_lists;
        // The change of settings may have removed the fleet's entries.
        self.lists.is_pending |= has_changed;
        self.table = table;
        self.is_outdated = false;
    }

    /// The number of hosts, and the age of their knowledge of each other.
    pub fn state(&mut self, now: Instant) -> Fleet {
        Fleet {
            hosts: self.hosts,
            staleness: self.freshness.lateness(now),
        }
    }

    /// Scans the table. `ticks`: the time of the host's clock.
    pub fn scan(&mut self, ticks: u64, now: Instant) {
        let state = self.state(now);
        let was_idle = self.next_round().is_none();
        self.is_outdated |= self.member.scan(&self.table, state, ticks);
        let has_begun = was_idle && self.next_round().is_some();
        self.freshness.scanned(now, has_begun);
    }

    pub fn next_round(&self) -> Option<Arc<Round>> {
        self.member.unanswered().next().cloned()
    }

    /// Takes the store's answer to a round at the time `now`, in ticks, and charges the packets of other hosts.
    pub fn answer(&mut self, round: &Round, records: &[Record], now: u64) {
        self.member.answer(&self.table, round, records, now);
        let is_last = self.next_round().is_none();
        self.freshness.exchanged(is_last);
    }

    /// The shared limits, in the form that other hosts receive.
    pub fn held(&self) -> Vec<Held> {
        let limits = self.about().limits.iter().flatten();
        limits.map(|limit| limit.held.clone()).collect()
    }

    pub fn shared(&self, staleness: Option<Duration>, credit: Duration) -> Vec<SharedLimit> {
        let limits = self.about().limits.iter().flatten();
        limits
            .map(|limit| {
                let Limit { quota, held } = &**limit;
                let beyond = |staleness| overshoot(quota, self.hosts, staleness, credit);
                SharedLimit {
                    name: held.name.clone(),
                    overshoot_packets: staleness.map(beyond),
                    conflicts: self.conflicts.of(&held.name).collect(),
                }
            })
            .collect()
    }
}

/// A random id from the system. A clock would not do: hosts that boot from one image at the same time would get the
/// same id, and the store would mix up their rounds.
fn id() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The maximum packets of one source that the fleet passes beyond its limit, without the share that stays unpublished.
/// Each other host adds a burst, its refill before it hears of this host, and a packet that it keeps to itself. The
/// credit of a bucket that was full is added once.
fn overshoot(quota: &Quota, hosts: u32, staleness: Duration, credit: Duration) -> u64 {
    let others = u64::from(hosts.saturating_sub(1));
    let each = quota.tau.saturating_add(shared_quota::ticks(staleness)) / quota.cost + 1;
    let once = shared_quota::ticks(credit) / quota.cost;
    each.saturating_mul(others)
        .saturating_add(once.saturating_mul(others.min(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overshoot_grows_with_burst_and_staleness_of_other_hosts() {
        let second = shared_quota::ticks(Duration::from_secs(1));
        // 100 packets per second, burst 10.
        let quota = Quota {
            tau: second / 2,
            cost: second / 20,
            epoch: 0,
        };
        let millis = Duration::from_millis;
        let beyond = |hosts, stale| overshoot(&quota, hosts, millis(stale), millis(stale));
        assert_eq!(beyond(1, 10_000), 0, "alone");
        assert_eq!(beyond(3, 0), 22);
        assert_eq!(beyond(3, 500), 2 * (10 + 10 + 1) + 10);
        assert_eq!(beyond(0, 500), 0);
    }
}
