//! The store counts each round once, and keeps a record until its bucket is full.

use std::sync::Arc;

use super::{ALONE, FLEET, SECOND, SLOW, limit, round, round_of, store, totals};
use limiter_fleet::{host::Limit, ledger::Record};

/// A round that is older than the last one does not count.
#[test]
fn round_is_counted_once() {
    let (redis, mut store) = store!();
    let first = round(1, &[(1, 5), (2, 7), (3, 0)]);
    let before = store.now();
    let answer = store.exchange(1, &first);
    let after = store.now();
    assert_eq!(totals(&answer), [5, 7, 0]);
    assert!((before..=after).contains(&answer[0].born), "{answer:?}");
    assert_eq!(answer[0].spent, 5 * SECOND);
    // The third source was not charged, and has no record.
    assert_eq!(answer[2], Record::default());
    assert!(!redis.cli(&["KEYS", "*"]).contains("10.0.0.3"));
    for _ in 0..3 {
        let again = store.exchange(1, &first);
        assert_eq!(totals(&again), [5, 7, 0]);
        assert_eq!(again[0].born, answer[0].born);
    }
    assert_eq!(totals(&store.exchange(1, &round(7, &[(1, 1)]))), [6]);
    // The round arrives again, with other contents.
    assert_eq!(
        totals(&store.exchange(1, &round(6, &[(1, 100), (9, 1)]))),
        [6, 0]
    );
    assert_eq!(totals(&store.exchange(1, &round(7, &[(1, 1)]))), [6]);
    // The bucket refills by the clock of the store.
    let last = store.exchange(1, &round(8, &[(1, 3)]))[0];
    let elapsed = (store.now() - last.born) * 256_000;
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
    let (_redis, mut store) = store!();
    let quick = ("quick", 20 * SECOND, SECOND / 7);
    let slow = ("slow", 60_000 * SECOND, 900 * SECOND + 1);
    let charges = [(1, 7, quick), (2, 3, slow), (3, 200, quick)];
    let mut all = round(1, &charges.map(|(source, packets, _)| (source, packets)));
    for (item, (_, _, (name, tau, cost))) in all.items.iter_mut().zip(charges) {
        let mut of = Limit::clone(&limit((name, tau)));
        of.quota.cost = cost;
        item.limit = Arc::new(of);
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
    let (_redis, mut store) = store!();
    assert_eq!(totals(&store.exchange(1, &round(5, &[(1, 5)]))), [5]);
    assert_eq!(totals(&store.exchange(2, &round(1, &[(1, 3)]))), [8]);
    let in_part = |part, number| {
        let mut round = round(number, &[(1, 1)]);
        round.part = part;
        round
    };
    // The later round arrives first.
    assert_eq!(totals(&store.exchange(1, &in_part(3, 7))), [9]);
    assert_eq!(totals(&store.exchange(1, &in_part(2, 6))), [10]);
    assert_eq!(totals(&store.exchange(1, &in_part(2, 6))), [10]);
    // Other fleets and other limits have other records.
    let mut ask = |fleet, of| {
        let round = round_of(of, 9, &[(1, 1)]);
        let exchange = store.store.exchange(fleet, 1, &round, ALONE);
        store.runtime.block_on(exchange).unwrap()
    };
    assert_eq!(totals(&ask("edge2", SLOW)), [1]);
    assert_eq!(totals(&ask(FLEET, ("other", SECOND))), [1]);
}

/// The next record is then new.
#[test]
fn records_expire_after_their_bucket_is_full() {
    let (redis, mut store) = store!();
    let short = (SLOW.0, 10 * SECOND);
    let mut ask = |number, of| {
        let round = round_of(of, number, &[(1, 1)]);
        let exchange = store.store.exchange(FLEET, 1, &round, ALONE);
        store.runtime.block_on(exchange).unwrap()[0]
    };
    let name = "limiter:{edge}:s:http:10.0.0.1";
    let left = || redis.cli(&["PTTL", name]).parse::<u64>().unwrap();
    let first = ask(1, short);
    assert!((130_000..=140_000).contains(&left()), "{}", left());
    // A quota with a longer or shorter expiry takes effect at the next charge.
    ask(2, SLOW);
    assert!((2_000_000..=2_120_000).contains(&left()), "{}", left());
    ask(3, short);
    assert!((130_000..=140_000).contains(&left()), "{}", left());
    // A write without an expiry does not change the expiry.
    let second = ask(4, short);
    assert_eq!((second.born, second.total), (first.born, 4));
    assert!((130_000..=140_000).contains(&left()), "{}", left());
    redis.cli(&["PEXPIRE", name, "1"]);
    limiter_tests::eventually("it expires", || redis.cli(&["EXISTS", name]) == "0");
    let third = ask(5, short);
    assert!(third.born > first.born, "{third:?}");
    assert_eq!(third.total, 1);
}

#[test]
fn large_round_is_counted_in_pieces() {
    let (_redis, mut store) = store!();
    let items: Vec<_> = (0..4_321).map(|i| (i, u64::from(i) + 1)).collect();
    for number in 1..=5 {
        let records = store.exchange(1, &round(number, &items));
        let wanted: Vec<_> = items.iter().map(|(_, packets)| packets * number).collect();
        assert_eq!(totals(&records), wanted);
    }
}

/// The answer to one member has no more bytes if many members are charged.
#[test]
fn member_traffic_does_not_grow_with_the_fleet() {
    let (redis, mut store) = store!();
    let items: Vec<_> = (0..200).map(|source| (source, 3)).collect();
    let mut sent = |member| {
        let before = redis.sent();
        store.exchange(member, &round(1, &items));
        redis.sent() - before
    };
    // The first member sends the script.
    let sizes: Vec<_> = (1..=20).map(&mut sent).collect();
    assert!(5 * sizes[19] < 6 * sizes[1], "{sizes:?}");
}
