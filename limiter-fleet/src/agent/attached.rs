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

/// The limits that are shared, by their slots.
pub type Limits = [Option<Limit>; SLOTS as usize];

/// A member.
#[derive(Debug)]
pub struct Attached<T> {
    /// Tells it from all other members, as long as it lives.
    pub id: u64,
    table: T,
    limits: Arc<Limits>,
    /// The limits when the latest round of a group was made: the round is repeated as it is.
    told_as: HashMap<Group, Arc<Limits>>,
    member: Member,
    /// Members that there are.
    pub hosts: u32,
    /// Whether the configuration has changed since it was read.
    pub is_outdated: bool,
}

/// The limit of a source.
pub fn limit<'a>(limits: &'a Limits, key: &SourceKey) -> Option<&'a Limit> {
    limits.get(key.slot() as usize)?.as_ref()
}

impl<T: Table> Attached<T> {
    /// A new member. In a cluster (`in_shards`) each round is about one shard.
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

    /// What is configured.
    pub fn about(&self) -> &About {
        self.table.about()
    }

    /// Whether this member has the table: another table, or another fleet, is another member.
    pub fn is_of(&self, table: &T) -> bool {
        let (own, other) = (self.about(), table.about());
        own.fleet == other.fleet && own.table == other.table
    }

    /// Takes in what is configured now.
    pub fn refresh(&mut self, table: T) {
        if self.about().program != table.about().program {
            self.limits = Arc::new(table.about().limits.clone());
        }
        self.table = table;
        self.is_outdated = false;
    }

    /// What is known of the fleet at this moment.
    pub fn state(&self, staleness: Duration) -> Fleet {
        Fleet {
            hosts: self.hosts,
            staleness,
        }
    }

    /// Goes through the table at the time `now`, in ticks. Returns the rounds that are due.
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

    /// The limits when the round of this group was made: one may be gone by now, or another one may have its slot.
    pub fn limits_of(&self, group: Group) -> Arc<Limits> {
        Arc::clone(self.told_as.get(&group).unwrap_or(&self.limits))
    }

    /// Rounds that have not been answered.
    pub fn unanswered(&self) -> impl Iterator<Item = &Round> {
        self.member.unanswered()
    }

    /// Takes in the store's answer to a round at the time `now`, in ticks, and charges what others have let through.
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

    /// The limits that are shared, as others are told of them.
    pub fn held(&self) -> Vec<Held> {
        let limits = self.limits.iter().flatten();
        limits.map(|limit| limit.held.clone()).collect()
    }

    /// Sources that account is kept of.
    pub fn sources(&self) -> usize {
        self.member.sources()
    }

    /// The limits that are shared, what the whole fleet lets through of one source beyond each, and how others hold them.
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
    /// What the store needs to know of it.
    pub(super) fn of(&self, fleet: Fleet) -> Of<'_> {
        Of {
            limit: &self.held.name,
            cost: self.terms.cost,
            cap: self.terms.tau.saturating_add(fleet.debt(&self.terms)),
        }
    }
}

/// Of the system's random numbers: what one may get by a clock alone, hosts that boot from one image at the same time
/// get too, and the store would take one's rounds for the other's.
fn id() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Packets of one source that the fleet lets through beyond its limit, at most, but for a share that goes untold: each
/// of the other hosts a burst, what refills before it has heard of this one, and a packet that it keeps to itself; and
/// once what a bucket that was full is given credit for.
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
        // 20/s, burst 10.
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
