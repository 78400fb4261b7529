//! A member keeps ledgers of the right sources, sends them in rounds, and bounds the debt of its buckets.

use std::{sync::Arc, time::Duration};

use limiter_common::{
    arithmetic::bucket::DEBT_MAX,
    table::key::{Address, KeyMask, SLOTS, SourceKey},
};
use limiter_fleet::{
    conflicts::Held,
    host::Limit,
    member::{Item, Member, Round, Sighting},
    quota::{Fleet, Quota, STALENESS, ticks},
    refill::{Reading, charged},
};

/// One millisecond, in ticks.
const MS: u64 = 1_000_000 << 8;
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

fn key(source: u32) -> SourceKey {
    KeyMask::prefixes(32, 64).key(0, &Address::ipv4(source), 0)
}

/// An entry: its number, its source, packets spent, and packets charged in total.
type Entry = (usize, u32, u64, u64);

fn sighting(&(number, source, spent, admitted): &Entry) -> Sighting {
    Sighting {
        number,
        key: key(source),
        reading: Reading {
            tat: NOW + spent * QUOTA.cost,
            epoch: 0,
            now: NOW,
        },
        admitted,
    }
}

fn limit() -> Arc<Limit> {
    let held = Held::default();
    Arc::new(Limit { quota: QUOTA, held })
}

fn begin(member: &mut Member) {
    let mut limits = [const { None }; SLOTS as usize];
    limits[0] = Some(limit());
    member.begin(&limits, FLEET);
}

/// Scans a table with these entries.
fn scan(member: &mut Member, entries: &[Entry]) -> Vec<Arc<Round>> {
    begin(member);
    for entry in entries {
        member.sight(&sighting(entry));
    }
    member.end()
}

/// Sources numbered from 0, each with three packets in its own entry.
fn crowd(sources: u32) -> Vec<Entry> {
    let entry = |source| (source as usize, source, 3, 3);
    (0..sources).map(entry).collect()
}

/// The items of the next round, after all rounds under way were answered.
fn next_items(member: &mut Member, entries: &[Entry]) -> Vec<Item> {
    let waiting: Vec<_> = member.unanswered().cloned().collect();
    for round in waiting {
        member.answer(&round, &[], |_, _| None);
    }
    let rounds = scan(member, entries);
    rounds
        .iter()
        .flat_map(|round| round.items.clone())
        .collect()
}

fn item(source: u32, packets: u64) -> Item {
    Item {
        key: key(source),
        limit: limit(),
        packets,
    }
}

/// A member that has scanned an empty table.
fn begun(entries: usize) -> Member {
    let mut member = Member::new(entries);
    assert_eq!(scan(&mut member, &[]), []);
    member
}

#[test]
fn source_charged_before_the_start_is_queried() {
    let mut member = Member::new(4);
    // The second bucket is full: the store is not asked about it.
    let rounds = scan(&mut member, &[(0, 1, 3, 50), (1, 2, 0, 50)]);
    assert_eq!(rounds.len(), 1);
    assert_eq!(rounds[0].items, [item(1, 0)], "the origin is unknown");
    assert_eq!(member.sources(), 1);
    assert_eq!(
        (member.number(&key(1)), member.number(&key(2))),
        (Some(0), None)
    );
}

#[test]
fn new_source_is_published_from_its_second_packet() {
    let mut member = begun(4);
    assert_eq!(next_items(&mut member, &[(0, 1, 1, 1)]), []);
    assert_eq!(member.sources(), 1);
    // The second source has no charges since the last scan, whatever its bucket.
    let entries = [(0, 1, 2, 2), (1, 2, 0, 0), (2, 3, 4, 0), (3, 4, 3, 3)];
    let mut items = next_items(&mut member, &entries);
    items.sort_by_key(|item| item.packets);
    assert_eq!(items, [item(1, 2), item(4, 3)]);
    assert_eq!(member.sources(), 2);
    assert_eq!(member.number(&key(4)), Some(3));
}

#[test]
fn entry_taken_by_another_source_starts_a_new_ledger() {
    let mut member = begun(1);
    for source in 0..64 {
        // Limited to the bucket's possible charges, and usually less than the source before.
        let count = 11 - u64::from(source % 8);
        let entry = (0, source, 9, count);
        assert_eq!(next_items(&mut member, &[entry]), [item(source, count)]);
        let entry = (0, source, 9, count + 2);
        assert_eq!(next_items(&mut member, &[entry]), [item(source, 2)]);
    }
    assert_eq!(member.sources(), 1);
}

/// A packet that was charged, and then refused by another limit, is refunded.
#[test]
fn refunded_packets_are_not_published_twice() {
    let mut member = begun(1);
    assert_eq!(next_items(&mut member, &[(0, 1, 5, 5)]), [item(1, 5)]);
    assert_eq!(next_items(&mut member, &[(0, 1, 4, 4)]), []);
    assert_eq!(next_items(&mut member, &[(0, 1, 5, 5)]), []);
    assert_eq!(next_items(&mut member, &[(0, 1, 6, 6)]), [item(1, 1)]);
}

#[test]
fn missing_source_is_forgotten_and_unreadable_source_is_kept() {
    let mut member = begun(2);
    let both = [(0, 1, 3, 3), (1, 2, 3, 3)];
    assert_eq!(next_items(&mut member, &both).len(), 2);
    begin(&mut member);
    member.skip(&key(1));
    assert_eq!(member.end(), []);
    assert_eq!(member.sources(), 1);
    assert_eq!(member.number(&key(1)), Some(0));
    assert_eq!(next_items(&mut member, &[]), []);
    assert_eq!(member.sources(), 0);
}

#[test]
fn exchange_has_a_round_for_each_thousand_sources() {
    for (sources, parts) in [(1, 1), (1_000, 1), (1_001, 2), (32_001, 33)] {
        let mut member = begun(sources as usize);
        let rounds = scan(&mut member, &crowd(sources));
        let items: usize = rounds.iter().map(|round| round.items.len()).sum();
        assert_eq!((items, rounds.len()), (sources as usize, parts));
        for (at, round) in (0..).zip(&rounds) {
            assert_eq!((round.part, round.number), (at, u64::from(at) + 1));
        }
    }
}

#[test]
fn next_exchange_waits_for_all_answers() {
    let mut member = begun(1_001);
    let mut entries = crowd(1_001);
    let rounds = scan(&mut member, &entries);
    for round in &rounds {
        entries.iter_mut().for_each(|entry| entry.3 += 1);
        assert_eq!(scan(&mut member, &entries), []);
        member.answer(round, &[], |_, _| None);
    }
    // A repeated answer changes nothing.
    let next = scan(&mut member, &entries);
    member.answer(&rounds[0], &[], |_, _| None);
    assert_eq!(member.unanswered().count(), 2);
    let packets = next.iter().flat_map(|round| &round.items);
    assert!(packets.map(|item| item.packets).all(|packets| packets == 2));
    assert_eq!(next[0].number, 3);
}

#[test]
fn bucket_is_charged_at_most_up_to_its_maximum_debt() {
    let tat = NOW + 3 * SECOND;
    assert_eq!(
        charged(tat, NOW, SECOND, 10 * SECOND),
        Some((tat + SECOND, SECOND))
    );
    assert_eq!(
        charged(tat, NOW, SECOND, 3 * SECOND + MS),
        Some((tat + MS, MS))
    );
    assert_eq!(charged(tat, NOW, SECOND, 3 * SECOND), None);
    assert_eq!(charged(tat, NOW, SECOND, 2 * SECOND), None);
    assert_eq!(charged(tat, NOW, 0, 10 * SECOND), None);
    // The bucket has been full for long: the charge counts from now on.
    assert_eq!(charged(NOW - SECOND, NOW, MS, SECOND), Some((NOW + MS, MS)));
}

#[test]
fn debt_covers_unreported_admissions_of_other_hosts() {
    let debt = |hosts, staleness, tau| {
        let quota = Quota { tau, ..QUOTA };
        Fleet { hosts, staleness }.debt(&quota)
    };
    let second = Duration::from_secs(1);
    assert_eq!(debt(0, second, MS), 0);
    assert_eq!(debt(1, second, MS), 0);
    assert_eq!(debt(2, second, MS), SECOND + MS);
    assert_eq!(debt(4, second, MS), 3 * (SECOND + MS));
    assert_eq!(debt(2, Duration::ZERO, MS), ticks(STALENESS.0) + MS);
    assert_eq!(debt(2, 60 * second, MS), ticks(STALENESS.1) + MS);
    assert_eq!(debt(2, second, DEBT_MAX), DEBT_MAX / 2);
    assert_eq!(debt(u32::MAX, second, u64::MAX), DEBT_MAX / 2);
    assert_eq!((ticks(second), ticks(Duration::MAX)), (SECOND, u64::MAX));
    let share = |hosts| Fleet { hosts, ..FLEET }.share();
    assert_eq!((share(0), share(1), share(3)), (20, 20, 60));
}
