//! Restarts, loss of data and pauses of the store count no round twice.

use std::time::{Duration, Instant};

use limiter_fleet::store::{Fault, Options};

use super::{Asked, expect_fault, options, refused, round, store, try_connect};

#[test]
fn store_that_forgets_scripts_or_data_is_set_up_again() {
    let (mut server, mut store) = store!();
    let one = |number| round(number, &[(1, 1)]);
    let first = store.exchange(1, &one(1))[0];
    server.forget_scripts();
    assert_eq!(store.totals(2, &[(1, 1)]), [2]);
    server.forget();
    let second = store.exchange(1, &one(3))[0];
    assert!(second.born > first.born && second.total == 1, "{second:?}");
    // The store restarts with its saved data.
    server.save();
    server.stop();
    server.go_on();
    let error = expect_fault!(Fault::Unreachable(..), store.fails(4, &[(1, 1)]));
    assert!(error.is_of_the_connection());
    let mut store = Asked::of(&server);
    for _ in 0..2 {
        let third = store.exchange(1, &one(4))[0];
        assert_eq!((third.born, third.total), (second.born, 2));
    }
}

#[test]
fn stopped_store_times_out_and_counts_a_round_once() {
    let (server, _store) = store!();
    let quick = Options {
        timeout: Duration::from_millis(200),
        ..options(&server.agent_url())
    };
    let mut store = try_connect(&quick).unwrap();
    // Makes the script known to the store.
    store.totals(1, &[(1, 1)]);
    server.pause();
    let began = Instant::now();
    let error = expect_fault!(Fault::Timeout(..), store.fails(2, &[(1, 5)]));
    assert!(began.elapsed() >= quick.timeout && error.is_of_the_connection());
    expect_fault!(Fault::Timeout(..), refused(&quick));
    server.resume();
    let mut store = Asked::of(&server);
    assert_eq!(store.totals(2, &[(1, 5)]), [6]);
    assert_eq!(store.totals(3, &[(1, 1)]), [7]);
}
