//! A member's ledger of a source is sent, updated by answers, and dropped at the right moments.

use std::time::Duration;

use limiter_fleet::{
    ledger::{Ledger, Record, UNBORN},
    refill::Reading,
    shared_quota::{Fleet, Quota},
};

/// One millisecond, in ticks.
const MS: u64 = 1_000_000 << 8;
const SECOND: u64 = 1_000 * MS;
/// The time at which each test begins, in ticks.
const BEGIN: u64 = 1 << 60;

/// 100 packets per second, burst 10.
const QUOTA: Quota = Quota {
    tau: 100 * MS,
    cost: 10 * MS,
    epoch: 0,
};
/// A fleet of which this host keeps 1/20 to itself.
const ALONE: Fleet = Fleet {
    hosts: 1,
    staleness: Duration::from_secs(1),
};

/// A reading `after` ticks from the beginning, with `spent` ticks spent.
fn reading(after: u64, spent: u64) -> Reading {
    let now = BEGIN + after;
    Reading {
        tat: now + spent,
        epoch: 0,
        now,
    }
}

/// A ledger that is shared from the first reading on, with a full bucket.
fn shared() -> Ledger {
    Ledger::of_old(reading(0, 0))
}

/// Adds a reading to the ledger, under [`QUOTA`].
fn see(ledger: &mut Ledger, after: u64, spent: u64, packets: u64) {
    ledger.read(reading(after, spent), packets, &QUOTA, ALONE);
}

fn record(total: u64, spent: u64) -> Record {
    Record {
        born: 7,
        total,
        spent,
    }
}

#[test]
fn single_packet_is_not_published() {
    let mut single = Ledger::new(reading(0, 10 * MS), 1, &QUOTA, ALONE);
    assert_eq!(single.publish(), None);
    // The second packet is shared, unless the share has paid for the first: 1/20 of 100/s, in 200 ms.
    let mut second = single.clone();
    see(&mut second, MS, 19 * MS, 1);
    assert_eq!(second.publish(), Some(2));
    assert!(!single.is_over());
    see(&mut single, 199 * MS, 0, 0);
    assert!(!single.is_over());
    see(&mut single, 200 * MS, 0, 0);
    assert!(single.is_over());
    // Packets paid for by the share are not published later.
    see(&mut single, 201 * MS, 20 * MS, 2);
    assert_eq!(single.publish(), Some(2));
}

#[test]
fn deeper_bucket_has_a_larger_unpublished_share() {
    let deep = Quota {
        tau: SECOND,
        ..QUOTA
    };
    let published = |packets, hosts| {
        let fleet = Fleet { hosts, ..ALONE };
        let reading = reading(0, packets * deep.cost);
        Ledger::new(reading, packets, &deep, fleet).publish()
    };
    assert_eq!((published(5, 1), published(6, 1)), (None, Some(6)));
    assert_eq!((published(2, 2), published(3, 2)), (None, Some(3)));
}

#[test]
fn silent_source_is_queried_every_tenth_scan() {
    let mut ledger = shared();
    see(&mut ledger, MS, 0, 0);
    assert_eq!(ledger.publish(), Some(0), "the record is new");
    ledger.answer(&record(0, 0), &reading(2 * MS, 0), &QUOTA);
    for round in 1..=30 {
        see(&mut ledger, 2 * MS + round, 0, 0);
        let due = (round % 10 == 0).then_some(0);
        assert_eq!(ledger.publish(), due, "round {round}");
    }
    see(&mut ledger, 3 * MS, 10 * MS, 1);
    assert_eq!(ledger.publish(), Some(1));
    assert_eq!(ledger.publish(), None);
}

#[test]
fn source_silent_for_twenty_scans_is_forgotten() {
    let mut ledger = shared();
    for after in 0..20 {
        assert!(!ledger.is_over(), "after {after}");
        see(&mut ledger, 100 * MS + after * MS, 0, 0);
    }
    assert!(ledger.is_over());
}

/// Late packets are published as far as they are still in the bucket, or are recent.
#[test]
fn late_packets_are_published_only_if_recent_or_still_charged() {
    // Five packets, and no more. At the last reading, `left` is left of them.
    let published = |last: u64, left: u64, more: [u64; 2]| {
        let mut ledger = shared();
        see(&mut ledger, MS, 50 * MS, 5);
        see(&mut ledger, 2 * MS, 49 * MS, 0);
        see(&mut ledger, last - MS, left, more[0]);
        see(&mut ledger, last, left, more[1]);
        ledger.publish()
    };
    assert_eq!(published(SECOND, 0, [0, 0]), Some(5));
    assert_eq!(published(2 * SECOND, 0, [0, 0]), Some(5));
    assert_eq!(published(2 * SECOND + 1, 0, [0, 0]), Some(0));
    assert_eq!(published(2 * SECOND + 1, 35 * MS, [0, 0]), Some(3));
    assert_eq!(published(2 * SECOND + 1, 0, [1, 3]), Some(4));
}

#[test]
fn first_answer_charges_the_level_of_the_record() {
    let first = |record, unpublished: u64, spent| {
        let mut ledger = shared();
        see(&mut ledger, MS, spent, unpublished);
        ledger.answer(&record, &reading(MS, spent), &QUOTA)
    };
    assert_eq!(first(record(4, 40 * MS), 0, 0), 40 * MS);
    // Charges that are already in the bucket are not added again, except packets that the store does not know of.
    assert_eq!(first(record(4, 40 * MS), 0, 15 * MS), 25 * MS);
    assert_eq!(first(record(4, 40 * MS), 1, 15 * MS), 35 * MS);
    assert_eq!(first(record(4, 40 * MS), 0, 60 * MS), 0);
    assert_eq!(first(record(0, 40 * MS), 0, 0), 0, "no other packets");
    let unborn = Record {
        born: UNBORN,
        ..record(4, 40 * MS)
    };
    assert_eq!(first(unborn, 0, 0), 0);
    // A value above the maximum is cut to the maximum.
    assert_eq!(first(record(u64::MAX, 40 * MS), 0, 0), 40 * MS);
}

/// Refill that overflowed while other hosts sent packets is not charged: the overflow since the last answer, plus one
/// second, the maximum delay of their packets.
#[test]
fn overflowed_refill_is_subtracted_from_the_charge() {
    let charge = |looks: &[(u64, u64)]| {
        let mut ledger = shared();
        assert_eq!(ledger.answer(&record(0, 0), &reading(0, 0), &QUOTA), 0);
        for &(after, spent) in looks {
            ledger.read(reading(after, spent), 0, &QUOTA, ALONE);
        }
        let last = looks.last().expect("one");
        ledger.answer(&record(2_000, 0), &reading(last.0, last.1), &QUOTA)
    };
    assert_eq!(charge(&[(0, 0)]), 20 * SECOND);
    assert_eq!(charge(&[(10 * SECOND, 0)]), 10 * SECOND);
    assert_eq!(charge(&[(4 * SECOND, 0), (10 * SECOND, 0)]), 10 * SECOND);
    // The bucket was emptied by hand: only the refill of one second is plausible.
    assert_eq!(charge(&[(0, 8 * SECOND)]), 19 * SECOND);
}
