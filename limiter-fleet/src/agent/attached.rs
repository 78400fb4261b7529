//! One attachment as a member of its fleet.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use limiter_common::table::key::{SLOTS, SourceKey};

use crate::{
    conflicts::{Conflicts, Held},
    host::{About, Limit, Table},
    ledger::Record,
    member::{Group, Member, Round},
    quota::{self, Fleet, Quota},
    status::SharedLimit,
    store::{Of, shard},
};

/// The shared limits, by slot.
pub type Limits = [Option<Limit>; SLOTS as usize];

/// One attachment and its member.
#[derive(Debug)]
pub struct Attached<T> {
    /// Identifies the member among all others, as long as it lives.
    pub id: u64,
    table: T,
    limits: Arc<Limits>,
    /// The limits at the time of each group's last round. A round is repeated unchanged.
    told_as: HashMap<Group, Arc<Limits>>,
    member: Member,
    /// Number of members in the fleet.
    pub hosts: u32,
    /// Whether the configuration has changed since it was read.
    pub is_outdated: bool,
}

/// The limit that a source belongs to.
pub fn limit<'a>(limits: &'a Limits, key: &SourceKey) -> Option<&'a Limit> {
    limits.get(key.slot() as usize)?.as_ref()
}

impl<T: Table> Attached<T> {
    /// Creates a member. In a cluster (`in_shards`) each round is about one shard.
    pub fn new(table: T, in_shards: bool) -> Self {
        let about = table.about();
        Self {
            id: id(),
            limits: Arc::new(about.limits.clone()),
            told_as: HashMap::new(),
            member: Member::new(about.entries, in_shards),
            table,
            hosts: 1,
            is_outdated: false,
        }
    }

    /// The configuration.
    pub fn about(&self) -> &About {
        self.table.about()
    }

    /// Whether this member belongs to the table. Another table or another fleet needs another member.
    pub fn is_of(&self, table: &T) -> bool {
        let (own, other) = (self.about(), table.about());
        own.fleet == other.fleet && own.table == other.table
    }

    /// Replaces the configuration with the current one.
    pub fn refresh(&mut self, table: T) {
        if self.about().program != table.about().program {
            self.limits = Arc::new(table.about().limits.clone());
        }
        self.table = table;
        self.is_outdated = false;
    }

    /// The number of hosts, and the age of their knowledge of each other.
    pub fn state(&self, staleness: Duration) -> Fleet {
        Fleet {
            hosts: self.hosts,
            staleness,
        }
    }

    /// Scans the table at the time `now`, in ticks. Returns the rounds that are due.
    pub fn scan(&mut self, staleness: Duration, now: u64) -> Vec<Round> {
        let state = self.state(staleness);
        let Self {
            table,
            limits,
            told_as,
            member,
            is_outdated,
            ..
        } = self;
        let terms = limits
            .each_ref()
            .map(|limit| limit.as_ref().map(|limit| limit.terms));
        member.begin(terms, state);
        table.scan(now, |_, key, sighting| match sighting {
            Some(sighting) => member.sight(&sighting),
            None => {
                member.pass_over(key);
                *is_outdated = true;
            }
        });
        let rounds =
            member.end(|key| limit(limits, key).map_or(0, |limit| shard(&limit.held.name, key)));
        let made = |round: &Round| (round.group, Arc::clone(limits));
        told_as.extend(rounds.iter().map(made));
        rounds
    }

    /// The limits at the time of the group's last round. Since then, a limit may have been removed or replaced.
    pub fn limits_of(&self, group: Group) -> Arc<Limits> {
        Arc::clone(self.told_as.get(&group).unwrap_or(&self.limits))
    }

    /// The rounds without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = &Round> {
        self.member.unanswered()
    }

    /// Takes the store's answer to a round at the time `now`, in ticks, and charges the packets of other hosts.
    pub fn answer(&mut self, number: u64, group: Group, records: &[Record], now: u64) {
        let Self { table, member, .. } = self;
        let look = |number, key: &SourceKey| table.look(number, key, now);
        for charge in member.answer(number, group, records, look) {
            if let Some(number) = member.number(&charge.key) {
                let added = table.charge(number, &charge.key, now, charge.ticks, charge.most);
                if added > 0 {
                    member.added(&charge.key, added);
                }
            }
        }
    }

    /// The shared limits, in the form that other hosts receive.
    pub fn held(&self) -> Vec<Held> {
        let limits = self.limits.iter().flatten();
        limits.map(|limit| limit.held.clone()).collect()
    }

    /// Number of sources with a ledger.
    pub fn sources(&self) -> usize {
        self.member.sources()
    }

    /// The shared limits: the packets that the whole fleet passes beyond each per source, and the other hosts'
    /// settings.
    pub fn shared(
        &self,
        staleness: Option<Duration>,
        credit: Duration,
        conflicts: &Conflicts,
    ) -> Vec<SharedLimit> {
        let limits = self.limits.iter().flatten();
        limits
            .map(|Limit { terms, held }| {
                let beyond = |staleness| overshoot(terms, self.hosts, staleness, credit);
                SharedLimit {
                    name: held.name.clone(),
                    overshoot_packets: staleness.map(beyond),
                    conflicts: conflicts.of(&held.name).collect(),
                }
            })
            .collect()
    }
}

impl Limit {
    /// The numbers of this limit that the store needs.
    pub(super) fn of(&self, fleet: Fleet) -> Of<'_> {
        Of {
            limit: &self.held.name,
            cost: self.terms.cost,
            cap: self.terms.tau.saturating_add(fleet.debt(&self.terms)),
        }
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
fn overshoot(terms: &Quota, hosts: u32, staleness: Duration, credit: Duration) -> u64 {
    let others = u64::from(hosts.saturating_sub(1));
    let each = terms.tau.saturating_add(quota::ticks(staleness)) / terms.cost + 1;
    let once = quota::ticks(credit) / terms.cost;
    each.saturating_mul(others)
        .saturating_add(once.saturating_mul(others.min(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_not_made_of_what_another_host_may_have_too() {
        let id_of_seed = || {
            fastrand::seed(7);
            id()
        };
        assert_ne!(id_of_seed(), id_of_seed());
    }

    #[test]
    fn beyond_the_limit_is_a_burst_and_the_staleness_of_each_other_host() {
        let second = quota::ticks(Duration::from_secs(1));
        // 100 packets per second, burst 10.
        let terms = Quota {
            tau: second / 2,
            cost: second / 20,
            epoch: 0,
        };
        let millis = Duration::from_millis;
        let beyond = |hosts, stale| overshoot(&terms, hosts, millis(stale), millis(stale));
        assert_eq!(beyond(1, 10_000), 0, "alone");
        assert_eq!(beyond(3, 0), 22);
        assert_eq!(beyond(3, 500), 2 * (10 + 10 + 1) + 10);
        assert_eq!(beyond(0, 500), 0);
    }
}
