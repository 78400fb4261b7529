//! Many hosts at once lose no charge, in any isolation of transactions.

use std::{
    io::Write as _,
    process::{Child, ChildStdin, Stdio},
    thread,
    time::Duration,
};

use limiter_fleet::store::Fault;

use super::{Client, FLEET, Server, expect_fault, round, store, stored_lists::add, totals};

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
            let mut client = Client::of(&server);
            for number in 1..=ROUNDS {
                let mut items: Vec<_> = (1..=SOURCES).map(|source| (source, 1)).collect();
                items.rotate_left((number * member) as usize % SOURCES as usize);
                if member.is_multiple_of(2) {
                    items.reverse();
                }
                client.exchange(member, &round(number, &items));
                client.beat(member, &[], Duration::from_secs(60));
                if number.is_multiple_of(10) {
                    let edit = add(&[&format!("10.{member}.{number}.0/24")], None);
                    let edit = client.store.edit(FLEET, "deny", "host", 0, &edit);
                    assert_eq!(client.runtime.block_on(edit).unwrap().prefixes, 1);
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
    let other = Transaction::begin(&server, "UPDATE limiter.records SET total = total + 1");
    let send = || totals(&Client::of(&server).exchange(1, &first));
    thread::scope(|scope| {
        let sent: Vec<_> = (0..3).map(|_| scope.spawn(send)).collect();
        limiter_tests::eventually("a sending waits", || {
            sessions(&server, "wait_event_type = 'Lock'") != "0"
        });
        other.commit();
        for sent in sent {
            assert_eq!(sent.join().unwrap(), [7, 5]);
        }
    });
}

/// A transaction of another client, which holds its locks until it is committed.
struct Transaction {
    psql: Child,
    statements: ChildStdin,
}

impl Transaction {
    /// Begins with a statement that takes a lock.
    fn begin(server: &Server<'_>, statement: &str) -> Self {
        let mut psql = server.psql("edge");
        let mut psql = psql.stdin(Stdio::piped()).spawn().unwrap();
        let mut statements = psql.stdin.take().unwrap();
        writeln!(statements, "BEGIN; {statement};").unwrap();
        limiter_tests::eventually("the transaction holds the lock", || {
            sessions(server, "state = 'idle in transaction'") == "1"
        });
        Self { psql, statements }
    }

    fn commit(mut self) {
        writeln!(self.statements, "COMMIT;").unwrap();
        drop(self.statements);
        assert!(self.psql.wait().unwrap().success());
    }
}

/// Number of the server's sessions that fulfil a condition.
fn sessions(server: &Server<'_>, condition: &str) -> String {
    server.sql(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE {condition}"
    ))
}

/// An administrator's command locks a table for longer than the server lets agents wait. Their connections stay, and do
/// not multiply.
#[test]
fn locked_table_is_reported_and_connections_do_not_pile_up() {
    let (server, mut store) = store!();
    let lock = Transaction::begin(&server, "LOCK TABLE limiter.records");
    for number in [1, 2] {
        let error = expect_fault!(Fault::Refused(_), store.fails(number, &[(1, 1)]));
        assert!(error.to_string().contains("55P03"), "{error}");
        assert!(!error.is_of_the_connection(), "{error}");
    }
    lock.commit();
    assert_eq!(store.totals(2, &[(1, 1)]), [1]);
}
