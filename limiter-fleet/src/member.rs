//! A member of a fleet: an attachment, its sources, and the rounds that it exchanges with the store.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
};

use limiter_common::table::key::{SLOTS, SourceKey};

use crate::{
    host::{Limit, Limits, Sighting, Table},
    ledger::{LAG, Ledger, Record},
    refill::Reading,
    seen::Seen,
    shared_quota::{Fleet, Quota},
};

/// Maximum sources per round. The store does nothing else meanwhile.
const OF_ROUND: usize = 1_000;

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

#[derive(Debug)]
struct Kept {
    ledger: Ledger,
    /// The last scan in which the source was seen.
    scan: u64,
    /// The entry in which it was seen.
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
            fleet: Fleet::default(),
            seen: vec![Seen::default(); entries],
            ledgers: HashMap::new(),
            scan: 0,
            scans: [None; 3],
            number: 0,
            under_way: BTreeMap::new(),
        }
    }

    /// Scans the table at the time `now`, in ticks. Begins an exchange with the store, unless rounds of the last one
    /// are not answered. Returns true if an entry has a newer quota than the table's configuration. Such an entry is
    /// skipped, and its ledger waits for the new quota.
    pub fn scan(&mut self, table: &impl Table, fleet: Fleet, now: u64) -> bool {
        self.begin(&table.about().limits, fleet);
        let mut is_outdated = false;
        table.scan(now, |number, key, sighting| {
            if let Some(sighting) = sighting {
                self.sight(number, key, &sighting);
                return;
            }
            is_outdated = true;
            if let Some(kept) = self.ledgers.get_mut(key) {
                kept.scan = self.scan;
            }
        });
        let scan = self.scan;
        self.ledgers
            .retain(|_, kept| kept.scan == scan && !kept.ledger.is_over());
        if self.under_way.is_empty() {
            self.begin_exchange();
        }
        is_outdated
    }

    fn begin(&mut self, limits: &Limits, fleet: Fleet) {
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
        let limit = self.limits.get(key.slot() as usize)?.as_ref()?;
        Some(limit.quota)
    }

    /// Takes an entry of the table. Entries of limits that are not shared are skipped.
    fn sight(&mut self, number: usize, key: &SourceKey, sighting: &Sighting) {
        let Sighting { reading, admitted } = *sighting;
        let (Some(quota), Some(seen)) = (self.quota(key), self.seen.get_mut(number)) else {
            return;
        };
        self.scans[0] = Some(reading.now);
        let is_first = self.since[key.slot() as usize] == self.scan;
        let charged = seen.update(key, admitted);
        let charged = if is_first { 0 } else { charged };
        let fleet = self.fleet;
        if charged == 0 && reading.spent() == 0 && self.ledgers.is_empty() {
            return;
        }
        let ledger = match self.ledgers.get_mut(key) {
            Some(kept) => {
                kept.ledger.read(reading, charged, &quota, fleet);
                (kept.scan, kept.number) = (self.scan, number);
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
        self.ledgers.insert(*key, kept);
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

    fn begin_exchange(&mut self) {
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
    }

    /// The rounds without an answer.
    pub fn unanswered(&self) -> impl Iterator<Item = &Arc<Round>> {
        self.under_way.values()
    }

    /// Takes the store's answer to a round at the time `now`, in ticks: a record for each of its items, in the same
    /// order. Charges the packets of other hosts. Repeated and late answers are ignored.
    pub fn answer(&mut self, table: &impl Table, round: &Round, records: &[Record], now: u64) {
        match self.under_way.entry(round.part) {
            Entry::Occupied(sent) if sent.get().number == round.number => sent.remove(),
            _ => return,
        };
        for (item, record) in round.items.iter().zip(records) {
            self.charge(table, &item.key, record, now);
        }
    }

    fn charge(&mut self, table: &impl Table, key: &SourceKey, record: &Record, now: u64) {
        let (Some(quota), Some(kept)) = (self.quota(key), self.ledgers.get_mut(key)) else {
            return;
        };
        let sighting = table.read(kept.number, key, now);
        let (Some(sighting), Some(seen)) = (sighting, self.seen.get_mut(kept.number)) else {
            kept.ledger.answer_unseen(record);
            return;
        };
        let charged = seen.update(key, sighting.admitted);
        kept.ledger
            .read(sighting.reading, charged, &quota, self.fleet);
        let ticks = kept.ledger.answer(record, &sighting.reading, &quota);
        let most = quota.tau.saturating_add(self.fleet.debt(&quota));
        if ticks > 0 {
            let added = table.charge(kept.number, key, now, ticks, most);
            kept.ledger.added(added);
        }
    }

    /// Number of sources with a ledger.
    pub fn sources(&self) -> usize {
        self.ledgers.len()
    }
}
