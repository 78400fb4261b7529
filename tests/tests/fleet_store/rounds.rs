//! The store counts each round once, and keeps a record until its bucket is full.

use std::sync::Arc;

use limiter_fleet::{host::Limit, ledger::Record};

use super::{FLEET, SECOND, SLOW, round, round_of, store, totals};

/// A round that is older than the last one does not count.
#[test]
fn round_is_counted_once() {
    let (server, mut store) = store!();
    let first = round(1, &[(1, 5), (2, 7), (3, 0)]);
    let before = server.micros();
    let answer = store.exchange(1, &first);
    assert_eq!(totals(&answer), [5, 7, 0]);
    let times = before..=server.micros();
    assert!(times.contains(&answer[0].born), "{answer:?}");
    assert_eq!(answer[0].spent, 5 * SECOND);
    // The third source was not charged, and has no record.
    assert_eq!(answer[2], Record::default());
    assert_eq!(server.record_left("10.0.0.3"), None);
    let again = store.exchange(1, &first);
    assert_eq!(
        (totals(&again), again[0].born),
        (vec![5, 7, 0], answer[0].born)
    );
    assert_eq!(store.totals(7, &[(1, 1)]), [6]);
    // The round arrives again, with other contents.
    assert_eq!(store.totals(6, &[(1, 100), (9, 1)]), [6, 0]);
    assert_eq!(store.totals(7, &[(1, 1)]), [6]);
    // The bucket refills by the clock of the store.
    let last = store.exchange(1, &round(8, &[(1, 3)]))[0];
    let elapsed = (server.micros() - last.born) * 256_000;
    assert_eq!(last.total, 9);
    let due = 9 * SECOND;
    assert!(
        (due - elapsed..due).contains(&last.spent),
        "{last:?} after {elapsed}"
    );
}

/// A round has two limits, with costs that are no whole nanoseconds. Each source is charged by its own limit.
#[test]
fn each_source_is_charged_by_its_own_limit() {
    let (_server, mut store) = store!();
    let quick = ("quick", 20 * SECOND, SECOND / 7);
    let slow = ("slow", 60_000 * SECOND, 900 * SECOND + 1);
    let charges = [(1, 7, quick), (2, 3, slow), (3, 200, quick)];
    let mut all = round(1, &charges.map(|(source, packets, _)| (source, packets)));
    for (item, (_, _, (name, tau, cost))) in all.items.iter_mut().zip(charges) {
        let mut limit = Limit::clone(&item.limit);
        name.clone_into(&mut limit.held.name);
        (limit.quota.tau, limit.quota.cost) = (tau, cost);
        item.limit = Arc::new(limit);
    }
    for (record, (_, packets, (name, tau, cost))) in store.exchange(1, &all).iter().zip(charges) {
        assert_eq!(record.total, packets, "{name}");
        // The store counts whole nanoseconds, of 256 ticks.
        let due = (packets * cost).min(tau);
        assert!(due - record.spent < 256, "{name}: {record:?}, due {due}");
    }
}

/// Rounds of different members, and different parts of one member's exchange, may be in flight at the same time.
#[test]
fn members_add_up_and_parts_have_independent_rounds() {
    let (_server, mut store) = store!();
    // Member, part, number and packets. The later round arrives first.
    for (member, part, number, packets, total) in [
        (1, 0, 5, 5, 5),
        (2, 0, 1, 3, 8),
        (1, 3, 7, 1, 9),
        (1, 2, 6, 1, 10),
        (1, 2, 6, 1, 10),
    ] {
        let mut round = round(number, &[(1, packets)]);
        round.part = part;
        assert_eq!(totals(&store.exchange(member, &round)), [total]);
    }
    // Other fleets and other limits have other records.
    for (fleet, limit) in [("edge2", SLOW), (FLEET, ("other", SECOND))] {
        let answer = store.try_exchange(fleet, 1, &round_of(limit, 9, &[(1, 1)]));
        assert_eq!(totals(&answer.unwrap()), [1], "{fleet}");
    }
}

/// The next record is then new.
#[test]
fn records_expire_after_their_bucket_is_full() {
    let (server, mut store) = store!();
    let short = (SLOW.0, 10 * SECOND);
    let mut ask = |number, limit| store.exchange(1, &round_of(limit, number, &[(1, 1)]))[0];
    let source = "10.0.0.1";
    // A quota with a longer or shorter expiry takes effect at the next charge. A write without an expiry does not
    // change the expiry.
    let mut last = Record::default();
    for (number, limit, seconds) in [
        (1, short, 130..=140),
        (2, SLOW, 2_000..=2_120),
        (3, short, 130..=140),
        (4, short, 130..=140),
    ] {
        let record = ask(number, limit);
        assert!(number == 1 || record.born == last.born, "{record:?}");
        let left = server.record_left(source).unwrap();
        assert!(seconds.contains(&left.div_ceil(1_000)), "{number}: {left}");
        last = record;
    }
    assert_eq!(last.total, 4);
    server.end_record(source);
    limiter_tests::eventually("it expires", || server.record_left(source).is_none());
    let next = ask(5, short);
    assert!(next.born > last.born && next.total == 1, "{next:?}");
}
