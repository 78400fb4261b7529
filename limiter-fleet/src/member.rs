//! A member of a fleet: an attachment, its sources, and the rounds that it exchanges with the store.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
};

use limiter_common::table::key::{SLOTS, SourceKey};

use super::{
    ledger::{LAG, Ledger, Record},
    quota::{Fleet, Quota},
    refill::Reading,
};
use crate::host::{Limit, Limits};

/// Maximum sources per round. The store does nothing else meanwhile.
const OF_ROUND: usize = 1_000;
/// Maximum packets of one source that other limits may refund at once.
const TAKEN_BACK: i32 = 16;

/// A reading of an entry of the table.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    /// Number of the entry.
    pub number: usize,
    /// The source in the entry.
    pub key: SourceKey,
    /// A reading of its bucket.
    pub reading: Reading,
    /// Packets charged since the source has had the entry.
    pub admitted: u64,
}

/// One source in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The source.
    pub key: SourceKey,
    /// Its limit at the time of the round. Later, the limit may be removed or replaced.
    pub limit: Arc<Limit>,
    /// Packets that this member has charged since the last round.
    pub packets: u64,
}

/// One message to the store: a part of an exchange. It is repeated unchanged until it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Index of the part in its exchange. The store keeps the last number of each part.
    pub part: u32,
    /// Number of the round, higher than all numbers before.
    pub number: u64,
    /// The sources, with their packets.
    pub items: Vec<Item>,
}

/// A charge of a bucket for other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The source to charge.
    pub key: SourceKey,
    /// Ticks to charge.
    pub ticks: u64,
    /// Maximum ticks that the bucket may be spent by.
    pub most: u64,
}

/// The last sighting of an entry. Small, because there is one for every entry of the table.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Fingerprint of the key; 0: no source.
    print: u32,
    /// The low 32 bits of [`Sighting::admitted`].
    admitted: u32,
}

#[derive(Debug)]
struct Kept {
    ledger: Ledger,
    /// The last scan in which the source was seen.
    scan: u64,
    number: usize,
}

/// A member.
#[derive(Debug)]
pub struct Member {
    limits: Limits,
    /// The first scan in which each slot's limit was shared.
    since: [u64; SLOTS as usize],
    fleet: Fleet,
    seen: Vec<Seen>,
    ledgers: HashMap<SourceKey, Kept>,
    scan: u64,
    /// Times of this scan and of the two before, in ticks.
    scans: [Option<u64>; 3],
    number: u64,
    /// The parts of the present exchange without an answer.
    under_way: BTreeMap<u32, Arc<Round>>,
}

impl Member {
    /// Creates a member for a table with `entries` entries.
    pub fn new(entries: usize) -> Self {
        Self {
            limits: [const { None }; SLOTS as usize],
            since: [0; SLOTS as usize],
            fleet: Fleet {
                hosts: 1,
                staleness: std::time::Duration::ZERO,
            },
            seen: vec![Seen::default(); entries],
            ledgers: HashMap::new(),
            scan: 0,
            scans: [None; 3],
            number: 0,
            under_way: BTreeMap::new(),
        }
    }

    /// Begins a scan of the whole table.
    pub fn begin(&mut self, limits: &Limits, fleet: Fleet) {
        self.scan += 1;
        let [last, before, _] = self.scans;
        self.scans = [None, last, before];
        for (since, (old, new)) in self.since.iter_mut().zip(self.limits.iter().zip(limits)) {
            if old.is_none() && new.is_some() {
                *since = self.scan;
            }
        }
        self.limits = limits.clone();
        self.fleet = fleet;
    }

    fn quota(&self, key: &SourceKey) -> Option<Quota> {
        self.limits
            .get(key.slot() as usize)?
            .as_ref()
            .map(|limit| limit.quota)
    }

    /// Takes an entry of the table. Entries of limits that are not shared are skipped.
    pub fn sight(&mut self, sighting: &Sighting) {
        let Sighting {
            number,
            key,
            reading,
            admitted,
        } = *sighting;
        let (Some(quota), Some(seen)) = (self.quota(&key), self.seen.get_mut(number)) else {
            return;
        };
        self.scans[0] = Some(reading.now);
        let is_first = self.since[key.slot() as usize] == self.scan;
        let charged = seen.update(print(&key), admitted);
        let charged = if is_first { 0 } else { charged };
        let fleet = self.fleet;
        if charged == 0 && reading.spent() == 0 && self.ledgers.is_empty() {
            return;
        }
        let ledger = match self.ledgers.get_mut(&key) {
            Some(kept) => {
                kept.ledger.read(reading, charged, &quota, fleet);
                kept.scan = self.scan;
                kept.number = number;
                return;
            }
            None if is_first && reading.spent() > 0 => Ledger::of_old(reading),
            None if charged > 0 => {
                let charged = charged.min(self.possible(&reading, &quota));
                Ledger::new(reading, charged, &quota, fleet)
            }
            None => return,
        };
        let scan = self.scan;
        let kept = Kept {
            ledger,
            scan,
            number,
        };
        self.ledgers.insert(key, kept);
    }

    /// The maximum packets charged to a bucket that was full when it was last read. That was one scan ago, or two if
    /// it could not be read in between.
    fn possible(&self, reading: &Reading, quota: &Quota) -> u64 {
        let [_, last, before] = self.scans;
        let Some(then) = before.or(last) else {
            return u64::MAX;
        };
        let elapsed = reading.now.wrapping_sub(then);
        reading.spent().saturating_add(elapsed) / quota.cost + LAG
    }

    /// Skips an entry that cannot be read under the known quotas. Its ledger waits for the new quotas.
    pub fn skip(&mut self, key: &SourceKey) {
        if let Some(kept) = self.ledgers.get_mut(key) {
            kept.scan = self.scan;
        }
    }

    /// Ends the scan. Returns the rounds to send to the store; none before all rounds of the last exchange are
    /// answered.
    pub fn end(&mut self) -> Vec<Arc<Round>> {
        let scan = self.scan;
        self.ledgers
            .retain(|_, kept| kept.scan == scan && !kept.ledger.is_over());
        if !self.under_way.is_empty() {
            return Vec::new();
        }
        let limits = &self.limits;
        let items = self.ledgers.iter_mut().filter_map(|(key, kept)| {
            let limit = limits.get(key.slot() as usize)?.as_ref()?;
            let packets = kept.ledger.publish()?;
            Some(Item {
                key: *key,
                limit: Arc::clone(limit),
                packets,
            })
        });
        let items: Vec<_> = items.collect();
        for (part, items) in (0..).zip(items.chunks(OF_ROUND)) {
            self.number += 1;
            let (number, items) = (self.number, items.to_vec());
            let round = Round {
                part,
                number,
                items,
            };
            self.under_way.insert(part, Arc::new(round));
        }
        self.unanswered().cloned().collect()
    }

    /// The rounds without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = &Arc<Round>> {
        self.under_way.values()
    }

    /// Takes the store's answer to a round: a record for each of its items, in the same order. Returns the charges.
    /// `reading` reads an entry again. Repeated and late answers are ignored.
    pub fn answer(
        &mut self,
        round: &Round,
        records: &[Record],
        mut read: impl FnMut(usize, &SourceKey) -> Option<Sighting>,
    ) -> Vec<Charge> {
        match self.under_way.entry(round.part) {
            Entry::Occupied(sent) if sent.get().number == round.number => sent.remove(),
            _ => return Vec::new(),
        };
        let mut charges = Vec::new();
        for (item, record) in round.items.iter().zip(records) {
            let quota = self.quota(&item.key);
            let (Some(quota), Some(kept)) = (quota, self.ledgers.get_mut(&item.key)) else {
                continue;
            };
            let sighting = read(kept.number, &item.key);
            let seen = sighting.and_then(|sighting| {
                let seen = self.seen.get_mut(sighting.number)?;
                Some((sighting, seen))
            });
            let Some((sighting, seen)) = seen else {
                kept.ledger.answer_unseen(record);
                continue;
            };
            let charged = seen.update(print(&item.key), sighting.admitted);
            kept.ledger
                .read(sighting.reading, charged, &quota, self.fleet);
            let ticks = kept.ledger.answer(record, &sighting.reading, &quota);
            if ticks > 0 {
                charges.push(Charge {
                    key: item.key,
                    ticks,
                    most: quota.tau.saturating_add(self.fleet.debt(&quota)),
                });
            }
        }
        charges
    }

    /// Notes that `ticks` were charged to a bucket for other hosts.
    pub fn added(&mut self, key: &SourceKey, ticks: u64) {
        if let Some(kept) = self.ledgers.get_mut(key) {
            kept.ledger.added(ticks);
        }
    }

    /// The entry in which a source was last seen.
    pub fn number(&self, key: &SourceKey) -> Option<usize> {
        self.ledgers.get(key).map(|kept| kept.number)
    }

    /// Number of sources with a ledger.
    pub fn sources(&self) -> usize {
        self.ledgers.len()
    }
}

impl Seen {
    /// Takes the present counter. Returns the packets charged since the last sighting.
    fn update(&mut self, print: u32, admitted: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits")]
        let lower = admitted as u32;
        let before = *self;
        if before.print != print {
            *self = Self {
                print,
                admitted: lower,
            };
            return admitted;
        }
        let more = lower.wrapping_sub(before.admitted);
        if (-TAKEN_BACK..0).contains(&more.cast_signed()) {
            // Another limit refused a counted packet, which is refunded.
            return 0;
        }
        self.admitted = lower;
        if more.cast_signed() < 0 {
            // The source has left and come back. Or the counters were reset, and the bucket decides.
            return admitted;
        }
        u64::from(more)
    }
}

/// A 32-bit fingerprint of a key. Two sources of one entry rarely have equal ones.
fn print(key: &SourceKey) -> u32 {
    let mixed = limiter_common::table::Seed::KNOWN.mixed(key);
    (mixed >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use limiter_common::table::key::{Address, KeyMask};

    use super::*;
    use crate::conflicts::Held;

    const MS: u64 = 1_000_000 << 8;
    /// 100 packets per second, burst 20.
    const QUOTA: Quota = Quota {
        tau: 200 * MS,
        cost: 10 * MS,
        epoch: 0,
    };

    /// One source on one host, and a store that no other host uses.
    struct Case {
        member: Member,
        now: u64,
        /// Ticks spent in the bucket.
        spent: u64,
        admitted: u64,
        record: Record,
    }

    impl Case {
        fn new() -> Self {
            let mut case = Self {
                member: Member::new(1),
                now: 1 << 60,
                spent: 0,
                admitted: 0,
                record: Record::default(),
            };
            // Packets from before the first scan are not published.
            assert_eq!(case.scan(), 0);
            case
        }

        fn sighting(&self) -> Sighting {
            Sighting {
                number: 0,
                key: KeyMask::prefixes(32, 64).key(0, &Address::ipv4(7), 0),
                reading: Reading {
                    tat: self.now + self.spent,
                    epoch: 0,
                    now: self.now,
                },
                admitted: self.admitted,
            }
        }

        /// Passes packets, and lets 100 ms pass.
        fn pass(&mut self, packets: u64) {
            self.admitted += packets;
            self.spent = (self.spent + packets * QUOTA.cost).saturating_sub(100 * MS);
            self.now += 100 * MS;
        }

        /// Scans the table. Returns the packets published to the store.
        fn scan(&mut self) -> u64 {
            let mut all = [const { None }; SLOTS as usize];
            all[0] = Some(Arc::new(Limit {
                quota: QUOTA,
                held: Held::default(),
            }));
            let fleet = Fleet {
                hosts: 3,
                staleness: Duration::from_millis(400),
            };
            self.member.begin(&all, fleet);
            self.member.sight(&self.sighting());
            let rounds = self.member.end();
            rounds.iter().map(|round| round.items[0].packets).sum()
        }

        /// Lets the store answer the round under way. `is_seen`: the entry can be read at that time. Returns the ticks
        /// to charge.
        fn answer(&mut self, is_seen: bool) -> u64 {
            let Some(round) = self.member.unanswered().next().cloned() else {
                return 0;
            };
            self.record.total += round.items[0].packets;
            self.record.born = 5;
            let sighting = is_seen.then(|| self.sighting());
            let charges = self.member.answer(&round, &[self.record], |_, _| sighting);
            charges.iter().map(|charge| charge.ticks).sum()
        }
    }

    #[test]
    fn source_is_not_charged_its_own_packets_after_a_missed_answer() {
        let mut case = Case::new();
        for _ in 0..3 {
            case.pass(8);
            assert_eq!(case.scan(), 8);
            assert_eq!(case.answer(true), 0);
        }
        case.pass(9);
        assert_eq!(case.scan(), 9);
        assert_eq!(case.answer(false), 0);
        case.pass(8);
        assert_eq!(case.scan(), 8);
        assert_eq!(case.answer(true), 0, "there is no other host");
    }

    /// The source was reset by the operator, or replaced and came back: its counters start again.
    #[test]
    fn source_that_restarts_in_its_entry_is_published() {
        let mut case = Case::new();
        for _ in 0..1_000 {
            case.pass(10);
            assert_eq!(case.scan(), 10);
            case.answer(true);
        }
        (case.admitted, case.spent) = (0, 0);
        let mut told = 0;
        for _ in 0..10 {
            case.pass(10);
            told += case.scan();
            case.answer(true);
        }
        assert!((90..=110).contains(&told), "{told}");
    }

    /// Packets over a limit in shadow are not charged. After shadow is switched off, all packets that passed are
    /// counted.
    #[test]
    fn packets_that_passed_uncharged_in_shadow_are_not_published() {
        let mut case = Case::new();
        for _ in 0..10 {
            case.pass(10);
            case.scan();
            case.answer(true);
        }
        case.admitted += 100_000;
        case.pass(10);
        let told = case.scan();
        assert!((10..=10 + LAG).contains(&told), "{told}");
        // A source that was silent does not publish them either.
        let mut case = Case::new();
        case.pass(1);
        case.scan();
        for _ in 0..1_000 {
            case.pass(0);
            case.scan();
        }
        assert_eq!(case.member.sources(), 0);
        case.admitted += 100_000;
        case.pass(0);
        let told = case.scan();
        assert!(told <= 2 * 10 + LAG, "{told}");
    }
}
