//! A member keeps ledgers of the right sources, sends them in rounds, and bounds the debt of its buckets.

mod fake;

use std::{sync::Arc, time::Duration};

use limiter_common::arithmetic::bucket::DEBT_MAX;
use limiter_fleet::{
    host::Limit,
    ledger::Record,
    member::{Item, Member},
    refill::charged,
    shared_quota::{Fleet, Quota, STALENESS, ticks},
};

use fake::{Bucket, Fake, MS, key, limit};

const SECOND: u64 = 1_000 * MS;
const NOW: u64 = 1 << 60;

/// 100 packets per second, burst 10.
const QUOTA: Quota = Quota {
    tau: 100 * MS,
    cost: 10 * MS,
    epoch: 0,
};
const FLEET: Fleet = Fleet {
    hosts: 2,
    staleness: Duration::from_secs(1),
};

/// An entry: its source, packets spent, and packets charged in total.
type Entry = (u32, u64, u64);

/// A member with its table, and a store that no other host uses.
struct Case {
    member: Member,
    table: Fake,
    now: u64,
    records: Vec<Record>,
}

impl Case {
    /// A member that has scanned nothing.
    fn unbegun(entries: usize) -> Self {
        Self {
            member: Member::new(entries),
            table: Fake::new(QUOTA, entries),
            now: NOW,
            records: Vec::new(),
        }
    }

    /// A member that has scanned an empty table.
    fn new(entries: usize) -> Self {
        let mut case = Self::unbegun(entries);
        assert_eq!(case.scan(&[]), []);
        case
    }

    /// Lets the store answer all rounds under way, and scans a table with these entries. Returns the items of the next
    /// rounds.
    fn scan(&mut self, entries: &[Entry]) -> Vec<Item> {
        self.answer();
        self.set(entries);
        self.look();
        let rounds = self.member.unanswered();
        rounds.flat_map(|round| round.items.clone()).collect()
    }

    fn set(&mut self, entries: &[Entry]) {
        let buckets = self.table.buckets.get_mut();
        buckets.fill(None);
        for (place, &(source, spent, admitted)) in buckets.iter_mut().zip(entries) {
            let tat = self.now + spent * QUOTA.cost;
            *place = Some(Bucket {
                source,
                tat,
                admitted,
            });
        }
    }

    fn look(&mut self) -> bool {
        self.member.scan(&self.table, FLEET, self.now)
    }

    /// Lets the store answer all rounds under way.
    fn answer(&mut self) {
        let waiting: Vec<_> = self.member.unanswered().cloned().collect();
        for round in waiting {
            self.member
                .answer(&self.table, &round, &self.records, self.now);
        }
    }
}

fn item(source: u32, packets: u64) -> Item {
    Item {
        key: key(source),
        limit: limit(QUOTA),
        packets,
    }
}

#[test]
fn source_charged_before_the_start_is_queried() {
    let mut case = Case::unbegun(4);
    // The second bucket is full: the store is not asked about it.
    let items = case.scan(&[(1, 3, 50), (2, 0, 50)]);
    assert_eq!(items, [item(1, 0)], "the origin is unknown");
    assert_eq!(case.member.sources(), 1);
}

#[test]
fn new_source_is_published_from_its_second_packet() {
    let mut case = Case::new(4);
    assert_eq!(case.scan(&[(1, 1, 1)]), []);
    assert_eq!(case.member.sources(), 1);
    // The second source has no charges since the last scan, whatever its bucket.
    let mut items = case.scan(&[(1, 2, 2), (2, 0, 0), (3, 4, 0), (4, 3, 3)]);
    items.sort_by_key(|item| item.packets);
    assert_eq!(items, [item(1, 2), item(4, 3)]);
    assert_eq!(case.member.sources(), 2);
}

#[test]
fn entry_taken_by_another_source_starts_a_new_ledger() {
    let mut case = Case::new(1);
    for source in 0..64 {
        // Limited to the bucket's possible charges, and usually less than the source before.
        let count = 11 - u64::from(source % 8);
        assert_eq!(case.scan(&[(source, 9, count)]), [item(source, count)]);
        assert_eq!(case.scan(&[(source, 9, count + 2)]), [item(source, 2)]);
    }
    assert_eq!(case.member.sources(), 1);
}

/// A packet that was charged, and then refused by another limit, is refunded.
#[test]
fn refunded_packets_are_not_published_twice() {
    let mut case = Case::new(1);
    for (count, published) in [(5, Some(5)), (4, None), (5, None), (6, Some(1))] {
        let items: Vec<_> = published
            .map(|packets| item(1, packets))
            .into_iter()
            .collect();
        assert_eq!(case.scan(&[(1, count, count)]), items, "{count}");
    }
}

#[test]
fn missing_source_is_forgotten_and_unreadable_source_is_kept() {
    let mut case = Case::new(2);
    assert_eq!(case.scan(&[(1, 3, 3), (2, 3, 3)]).len(), 2);
    case.table.is_changed = true;
    assert_eq!(case.scan(&[(1, 3, 3)]), []);
    assert_eq!(case.member.sources(), 1);
    assert!(case.look(), "the configuration is outdated");
    assert_eq!(case.scan(&[]), []);
    assert_eq!(case.member.sources(), 0);
}

#[test]
fn next_exchange_waits_for_all_answers() {
    // A round for each thousand sources.
    for (sources, parts) in [(1, 1), (1_000, 1), (1_001, 2), (3_001, 4)] {
        let mut case = Case::new(sources as usize);
        let crowd = |packets| (0..sources).map(move |source| (source, 3, packets));
        let crowd = |packets| crowd(packets).collect::<Vec<_>>();
        assert_eq!(case.scan(&crowd(3)).len(), sources as usize);
        let rounds: Vec<_> = case.member.unanswered().cloned().collect();
        assert_eq!(rounds.len(), parts);
        for (part, round) in (0..).zip(&rounds) {
            assert_eq!((round.part, round.number), (part, u64::from(part) + 1));
            case.set(&crowd(4));
            case.look();
            assert_eq!(case.member.unanswered().next(), Some(round));
            // Repeated answers change nothing.
            for _ in 0..2 {
                case.member.answer(&case.table, round, &[], NOW);
            }
        }
        let items = case.scan(&crowd(5));
        assert!(items.iter().all(|item| item.packets == 2) && items.len() == sources as usize);
        let next = case.member.unanswered().next().expect("a round");
        assert_eq!(next.number, parts as u64 + 1);
    }
}

/// The limit is replaced while the store is away.
#[test]
fn charges_of_a_removed_limit_count_for_no_other_limit() {
    let mut case = Case::new(1);
    assert_eq!(case.scan(&[(1, 3, 3)]), [item(1, 3)]);
    let mut other = Limit::clone(&limit(QUOTA));
    other.held.name = "other".to_owned();
    case.table.about.limits[0] = Some(Arc::new(other));
    case.set(&[(1, 3, 5)]);
    case.look();
    let round = case.member.unanswered().next().expect("the round waits");
    assert_eq!(round.items, [item(1, 3)]);
    let next = case.scan(&[(1, 3, 5)]);
    assert_eq!((&*next[0].limit.held.name, next[0].packets), ("other", 2));
}

/// Passes packets of one source, and lets 100 ms pass. Returns the packets published to the store. `is_seen`: the entry
/// can be read when the store answers.
fn pass(case: &mut Case, bucket: &mut Entry, packets: u64, is_seen: bool) -> u64 {
    case.now += 100 * MS;
    bucket.1 = (bucket.1 + packets).saturating_sub(10);
    bucket.2 += packets;
    case.set(&[*bucket]);
    case.look();
    let published = case.member.unanswered().map(|round| round.items[0].packets);
    let published = published.sum();
    let before = case.records.first().map_or(0, |record| record.total);
    let total = before + published;
    case.records = vec![Record {
        born: 5,
        total,
        spent: 0,
    }];
    case.table.is_changed = !is_seen;
    case.answer();
    case.table.is_changed = false;
    assert_eq!(case.table.wanted.get(), 0, "there is no other host");
    published
}

#[test]
fn source_is_not_charged_its_own_packets_after_a_missed_answer() {
    let (mut case, mut bucket) = (Case::new(1), (7, 0, 0));
    for (packets, is_seen) in [(8, true), (8, true), (9, false), (8, true)] {
        assert_eq!(pass(&mut case, &mut bucket, packets, is_seen), packets);
    }
}

/// The source was reset by the operator, or replaced and came back: its counters start again.
#[test]
fn source_that_restarts_in_its_entry_is_published() {
    let (mut case, mut bucket) = (Case::new(1), (7, 0, 0));
    for _ in 0..1_000 {
        assert_eq!(pass(&mut case, &mut bucket, 10, true), 10);
    }
    bucket = (7, 0, 0);
    let told: u64 = (0..10)
        .map(|_| pass(&mut case, &mut bucket, 10, true))
        .sum();
    assert!((90..=110).contains(&told), "{told}");
}

/// Packets over a limit in shadow are not charged. After shadow is switched off, all packets that passed are counted.
#[test]
fn packets_that_passed_uncharged_in_shadow_are_not_published() {
    // The second source was silent, and forgotten.
    for silent in [0, 1_000] {
        let (mut case, mut bucket) = (Case::new(1), (7, 0, 0));
        pass(&mut case, &mut bucket, 10, true);
        for _ in 0..silent {
            pass(&mut case, &mut bucket, 0, true);
        }
        bucket.2 += 100_000;
        let told = pass(&mut case, &mut bucket, 10, true);
        assert!((10..=2 * 10 + 3).contains(&told), "{told} after {silent}");
    }
}

#[test]
fn bucket_is_charged_at_most_up_to_its_maximum_debt() {
    let tat = NOW + 3 * SECOND;
    for (ticks, most, expected) in [
        (SECOND, 10 * SECOND, Some(SECOND)),
        (SECOND, 3 * SECOND + MS, Some(MS)),
        (SECOND, 3 * SECOND, None),
        (SECOND, 2 * SECOND, None),
        (0, 10 * SECOND, None),
    ] {
        let expected = expected.map(|added| (tat + added, added));
        assert_eq!(charged(tat, NOW, ticks, most), expected, "{ticks} {most}");
    }
    // The bucket has been full for long: the charge counts from now on.
    assert_eq!(charged(NOW - SECOND, NOW, MS, SECOND), Some((NOW + MS, MS)));
}

#[test]
fn debt_covers_unreported_admissions_of_other_hosts() {
    let second = Duration::from_secs(1);
    for (hosts, staleness, tau, debt) in [
        (0, second, MS, 0),
        (1, second, MS, 0),
        (2, second, MS, SECOND + MS),
        (4, second, MS, 3 * (SECOND + MS)),
        (2, Duration::ZERO, MS, ticks(*STALENESS.start()) + MS),
        (2, 60 * second, MS, ticks(*STALENESS.end()) + MS),
        (2, second, DEBT_MAX, DEBT_MAX / 2),
        (u32::MAX, second, u64::MAX, DEBT_MAX / 2),
    ] {
        let quota = Quota { tau, ..QUOTA };
        assert_eq!(Fleet { hosts, staleness }.debt(&quota), debt, "{hosts}");
    }
    assert_eq!((ticks(second), ticks(Duration::MAX)), (SECOND, u64::MAX));
    let share = |hosts| Fleet { hosts, ..FLEET }.share();
    assert_eq!((share(0), share(1), share(3)), (20, 20, 60));
}
