//! Many hosts at once lose no charge, in any isolation of transactions.

use std::{
    thread,
    time::{Duration, Instant},
};

use limiter_fleet::store::Fault;

use super::{Asked, FLEET, expect_fault, lists::add, options, round, store, totals, try_connect};

const HOSTS: u64 = 4;
const ROUNDS: u64 = 40;
const SOURCES: u32 = 25;

/// Each host charges the same sources, in another order, sends heartbeats, and changes a list.
#[test]
fn concurrent_rounds_lose_nothing_in_any_isolation() {
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let (server, mut store) = store!();
        server.sql(&format!(
            "ALTER DATABASE edge SET default_transaction_isolation = '{isolation}'"
        ));
        let host = |member: u64| {
            let mut asked = Asked::of(&server);
            for number in 1..=ROUNDS {
                let mut items: Vec<_> = (1..=SOURCES).map(|source| (source, 1)).collect();
                items.rotate_left((number * member) as usize % SOURCES as usize);
                if member.is_multiple_of(2) {
                    items.reverse();
                }
                asked.exchange(member, &round(number, &items));
                asked.beat(member, &[], Duration::from_secs(60));
                if number.is_multiple_of(10) {
                    let edit = add(&[&format!("10.{member}.{number}.0/24")], None);
                    let edit = asked.store.edit(FLEET, "deny", "host", &edit);
                    assert_eq!(asked.runtime.block_on(edit).unwrap().prefixes, 1);
                }
            }
        };
        thread::scope(|scope| {
            for member in 1..=HOSTS {
                scope.spawn(move || host(member));
            }
        });
        let items: Vec<_> = (1..=SOURCES).map(|source| (source, 0)).collect();
        let counted = totals(&store.exchange(99, &round(1, &items)));
        assert_eq!(
            counted,
            vec![HOSTS * ROUNDS; SOURCES as usize],
            "{isolation}"
        );
        assert_eq!(
            store.deny().len() as u64,
            HOSTS * ROUNDS / 10,
            "{isolation}"
        );
        let beat = store.beat(99, &[], Duration::from_secs(60));
        assert_eq!(u64::from(beat.hosts), HOSTS + 1, "{isolation}");
    }
}

/// The answer to the first sending is lost while it waits for another transaction. The second one waits for the first,
/// counts nothing, and must answer with the first one's charges, or the host would take them for others'.
#[test]
fn round_that_is_repeated_while_the_first_one_waits_is_counted_once() {
    let (server, mut store) = store!();
    let first = round(1, &[(1, 5), (2, 5)]);
    store.exchange(2, &round(1, &[(1, 1)]));
    // Holds the record's lock for a while.
    let mut other = server.psql("edge");
    other.args([
        "-c",
        "BEGIN; UPDATE limiter.records SET total = total + 1; SELECT pg_sleep(0.6); COMMIT",
    ]);
    let mut holds = other.spawn().unwrap();
    limiter_tests::eventually("the other transaction holds the lock", || {
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
    });
    let begin = Instant::now();
    let send = || totals(&Asked::of(&server).exchange(1, &first));
    thread::scope(|scope| {
        let sent: Vec<_> = (0..3).map(|_| scope.spawn(send)).collect();
        for sent in sent {
            assert_eq!(sent.join().unwrap(), [7, 5]);
        }
    });
    assert!(
        begin.elapsed() > Duration::from_millis(500),
        "nothing waited"
    );
    holds.wait().unwrap();
}

/// An administrator's command locks a table for longer than agents wait. Their connections stay, and do not multiply.
#[test]
fn locked_table_is_reported_and_connections_do_not_pile_up() {
    let (server, _store) = store!();
    let mut quick = options(&server.agent_url());
    quick.timeout = Duration::from_secs(1);
    let mut store = try_connect(&quick).unwrap();
    let mut lock = server.psql("edge");
    lock.args([
        "-c",
        "BEGIN; LOCK TABLE limiter.records; SELECT pg_sleep(4); COMMIT",
    ]);
    let mut locks = lock.spawn().unwrap();
    limiter_tests::eventually("the table is locked", || {
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
    });
    for number in [1, 2] {
        let error = expect_fault!(Fault::Refused(_), store.fails(number, &[(1, 1)]));
        assert!(!error.is_of_the_connection(), "{error}");
    }
    locks.wait().unwrap();
    assert_eq!(store.totals(2, &[(1, 1)]), [1]);
}
