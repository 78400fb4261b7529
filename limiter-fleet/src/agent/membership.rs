//! A member of a fleet in the agent: an attachment, its sources, and its exchange with the store.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use limiter_common::table::key::SourceKey;

use super::{
    force::Force,
    freshness::Freshness,
    lists::Known,
    question::{Answer, reply},
};
use crate::{
    conflicts::{Conflicts, Held},
    host::{About, Limit, Table},
    ledger::Record,
    member::{Member, Round},
    quota::{self, Fleet, Quota},
    status::SharedLimit,
    store::Changed,
};

/// A member, and the state of its exchange.
pub struct Membership<T> {
    /// Identifies the member among all others, as long as it lives.
    pub id: u64,
    pub label: String,
    table: T,
    member: Member,
    /// Number of members in the fleet.
    pub hosts: u32,
    /// True if the store has reported that number. Without it, the maximum debt of a bucket is not known.
    pub is_counted: bool,
    /// Until this time, missing members may not have come back to the store yet.
    pub returning: Instant,
    /// True if the configuration has changed since it was read.
    pub is_outdated: bool,
    pub freshness: Freshness,
    /// True while a round is under way.
    pub is_sending: bool,
    pub next_beat: Instant,
    pub is_beating: bool,
    pub conflicts: Conflicts,
    /// The fleet's entries on the lists.
    pub known: Known,
    /// True while the fleet's lists are being read.
    pub is_reading: bool,
    /// Controls when the lists are put in force.
    pub force: Force,
    /// Commands that wait until a change of lists is in force.
    pub waiting: Vec<Waiting>,
}

/// A command that waits for a change of a list.
pub struct Waiting {
    pub changed: Changed,
    pub answer: Answer,
}

impl<T: Table> Membership<T> {
    /// Creates a member for an attachment.
    pub fn new(table: T, host: &str, now: Instant) -> Self {
        let about = table.about();
        Self {
            id: id(),
            label: printable(&format!("{host}/{}", about.interface)),
            member: Member::new(about.entries),
            table,
            hosts: 1,
            is_counted: false,
            returning: now,
            is_outdated: false,
            freshness: Freshness::new(now),
            is_sending: false,
            next_beat: now,
            is_beating: false,
            conflicts: Conflicts::default(),
            known: Known::default(),
            is_reading: false,
            force: Force::new(now),
            waiting: Vec::new(),
        }
    }

    pub fn about(&self) -> &About {
        self.table.about()
    }

    pub fn fleet(&self) -> String {
        self.about().fleet.clone()
    }

    /// Formats a line about the member's interface.
    pub fn line(&self, text: &str) -> String {
        format!("{}: {text}", self.about().interface)
    }

    /// Begins anew with a new connection. Until `returning`, missing members may not have come back yet.
    pub fn begin_anew(&mut self, now: Instant, returning: Instant) {
        self.is_sending = false;
        self.is_beating = false;
        self.is_reading = false;
        self.freshness.began = None;
        self.known.revision = None;
        self.next_beat = now;
        self.returning = returning;
    }

    /// Takes a changed configuration of the attachment.
    pub fn refresh(&mut self, table: T) {
        let (before, now) = (self.about(), table.about());
        let has_changed = before.program != now.program;
        if before.lists != now.lists {
            self.known.revision = None;
        }
        if has_changed {
            // The change of settings may have removed the fleet's entries.
            self.known.is_pending = true;
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

    /// Scans the table. `ticks`: the time of the host's clock.
    pub fn scan(&mut self, staleness: Duration, ticks: u64, now: Instant) {
        let state = self.state(staleness);
        let Self {
            table,
            member,
            is_outdated,
            ..
        } = self;
        member.begin(&table.about().limits, state);
        table.scan(ticks, |key, sighting| match sighting {
            Some(sighting) => member.sight(&sighting),
            None => {
                member.skip(key);
                *is_outdated = true;
            }
        });
        let has_begun = !member.end().is_empty();
        self.freshness.scanned(now, has_begun);
    }

    /// The next round to send.
    pub fn next_round(&self) -> Option<Arc<Round>> {
        self.member.unanswered().next().cloned()
    }

    /// Takes the store's answer to a round at the time `now`, in ticks, and charges the packets of other hosts.
    pub fn answer(&mut self, round: &Round, records: &[Record], now: u64) {
        let Self { table, member, .. } = self;
        let read = |number, key: &SourceKey| table.read(number, key, now);
        for charge in member.answer(round, records, read) {
            if let Some(number) = member.number(&charge.key) {
                let added = table.charge(number, &charge.key, now, charge.ticks, charge.most);
                if added > 0 {
                    member.added(&charge.key, added);
                }
            }
        }
        let is_last = member.unanswered().next().is_none();
        self.freshness.exchanged(is_last);
    }

    /// The shared limits, in the form that other hosts receive.
    pub fn held(&self) -> Vec<Held> {
        let limits = self.about().limits.iter().flatten();
        limits.map(|limit| limit.held.clone()).collect()
    }

    pub fn sources(&self) -> usize {
        self.member.sources()
    }

    /// The shared limits, for the status.
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

    /// Returns true if a command waits for a revision that has been read.
    pub fn is_awaited(&self) -> bool {
        let read = self.known.revision;
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| Some(waiting.changed.revision) <= read)
    }

    /// Returns true if a command waits for a revision that has not been read yet.
    pub fn awaits_reading(&self) -> bool {
        let read = self.known.revision;
        let mut waiting = self.waiting.iter();
        waiting.any(|waiting| Some(waiting.changed.revision) > read && !waiting.answer.is_closed())
    }

    /// Answers the commands that wait for this revision or an earlier one.
    pub fn answer_waiting(&mut self, result: &Result<(), String>, revision: Option<u64>) {
        let came = |waiting: &mut Waiting| Some(waiting.changed.revision) <= revision;
        for Waiting { changed, answer } in self.waiting.extract_if(.., came) {
            reply(answer, result.clone().map(|()| changed.prefixes));
        }
    }
}

/// Makes a label that the store accepts: replaces other characters by `?`, and cuts the label to 128.
pub fn printable(label: &str) -> String {
    let printable = |c: char| if c.is_ascii_graphic() { c } else { '?' };
    label.chars().take(128).map(printable).collect()
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
    let each = quota.tau.saturating_add(quota::ticks(staleness)) / quota.cost + 1;
    let once = quota::ticks(credit) / quota.cost;
    each.saturating_mul(others)
        .saturating_add(once.saturating_mul(others.min(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_id_does_not_depend_on_a_shared_random_seed() {
        let id_of_seed = || {
            fastrand::seed(7);
            id()
        };
        assert_ne!(id_of_seed(), id_of_seed());
    }

    #[test]
    fn overshoot_grows_with_burst_and_staleness_of_other_hosts() {
        let second = quota::ticks(Duration::from_secs(1));
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
