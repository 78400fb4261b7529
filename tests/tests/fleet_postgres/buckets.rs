//! The store's own function is an exact bucket, with the time as its argument.

use super::{Server, store};

const NOW: u64 = 1_700_000_000_000_000;

/// Charges one packet of a limit of one per second at a time, in seconds after [`NOW`]. `most`: the tokens below zero
/// that hosts may owe. Returns the tokens left of ten.
fn charge(server: &Server<'_>, number: u64, seconds: f64, most: u64) -> f64 {
    let now = NOW + (seconds * 1e6) as u64;
    let cap = (10 + most) * 1_000_000_000;
    let level = server.sql(&format!(
        "SELECT level FROM limiter.exchange_at({now}, 'edge', 1, 0, {number},
            '{{all}}', '{{1e9}}', '{{{cap}}}', '{{140000}}', '{{192.0.2.7}}', '{{1}}', '{{1}}')"
    ));
    10.0 - level.parse::<f64>().unwrap() / 1e9
}

/// Refill 1/s, window 10 s: eleven requests at once leave 9, 8, ... 0, -1. Then one a second finds its token.
#[test]
fn worked_example_comes_out_of_the_store() {
    let (server, _store) = store!();
    for number in 1..=11 {
        let left = charge(&server, number, 0.0, 1);
        assert_eq!(left, 10.0 - number as f64, "request {number}");
    }
    // Debt is bounded.
    assert_eq!(charge(&server, 12, 0.0, 1), -1.0);
    for second in 1..=20 {
        let left = charge(&server, 12 + second, second as f64, 1);
        assert_eq!(left, -1.0, "after {second} s");
    }
    // After a pause of five seconds, four requests find a token at once, and one is owed.
    for (number, left) in (33..).zip([3.0, 2.0, 1.0, 0.0, -1.0]) {
        assert_eq!(charge(&server, number, 25.0, 1), left);
    }
    // Idle for the window and its debt: full again. A clock that goes back refills nothing.
    assert_eq!(charge(&server, 38, 36.5, 1), 9.0);
    assert_eq!(charge(&server, 39, 26.5, 1), -1.0);
}

/// A record that is over is no record, whether or not it was deleted. Rounds delete it.
#[test]
fn record_that_is_over_counts_as_none_and_is_deleted() {
    let (server, mut store) = store!();
    let count = || server.sql("SELECT count(*) FROM limiter.records");
    charge(&server, 1, 0.0, 1);
    charge(&server, 2, 0.0, 1);
    // The lifetime is 140 s.
    assert_eq!(charge(&server, 3, 139.0, 1), 9.0);
    assert_eq!(server.sql("SELECT total FROM limiter.records"), "3");
    server.sql("INSERT INTO limiter.records SELECT 'x' || i, 'all', 'edge', 1, 1, 1, 1, 1 FROM generate_series(1, 2500) i");
    for left in ["1502", "502", "1", "1"] {
        // The round of another source is years later: the record of this one is over too.
        store.totals(1, &[(1, 1)]);
        store.totals(server.micros(), &[(1, 1)]);
        if left == "1502" {
            continue;
        }
        assert!(count().parse::<u64>().unwrap() <= 502, "{}", count());
    }
    assert_eq!(count(), "1");
}
