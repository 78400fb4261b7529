//! Restarts, loss of data and pauses of the store count no round twice.

use std::time::{Duration, Instant};

use limiter_fleet::store::{Fault, Options};
use limiter_tests::proxy::Proxy;

use super::{Client, expect_fault, options, refused, round, store, totals, try_connect};

#[test]
fn store_that_forgets_scripts_or_data_is_set_up_again() {
    let (mut server, mut store) = store!();
    let numbered = |number| round(number, &[(1, 1)]);
    let first = store.exchange(1, &numbered(1))[0];
    server.forget_scripts();
    assert_eq!(store.totals(2, &[(1, 1)]), [2]);
    server.forget();
    let second = store.exchange(1, &numbered(3))[0];
    assert!(second.born > first.born && second.total == 1, "{second:?}");
    // The store restarts with its saved data.
    server.save();
    server.stop();
    server.go_on();
    let lost = store.fails(4, &[(1, 1)]);
    let error = expect_fault!(Fault::Unreachable(..) | Fault::Closed(..), lost);
    assert!(error.is_of_the_connection());
    let mut store = Client::of(&server);
    for _ in 0..2 {
        let third = store.exchange(1, &numbered(4))[0];
        assert_eq!((third.born, third.total), (second.born, 2));
    }
}

#[test]
fn stopped_store_times_out_and_counts_a_round_once() {
    let (server, _store) = store!();
    let quick = Options {
        timeout: Duration::from_secs(3),
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
    let mut store = Client::of(&server);
    assert_eq!(store.totals(2, &[(1, 5)]), [6]);
    assert_eq!(store.totals(3, &[(1, 1)]), [7]);
}

/// The store counts the round, and the link breaks before the answer.
#[test]
fn round_whose_answer_is_lost_is_counted_once() {
    let (server, _store) = store!();
    let link = Proxy::to(server.port);
    let connect = || try_connect(&options(&link.url(&server.agent_url(), server.port))).unwrap();
    let mut store = connect();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    link.lose_answers(true);
    expect_fault!(Fault::Unreachable(_), store.fails(2, &[(1, 5)]));
    limiter_tests::eventually("the store has counted the round", || {
        totals(&Client::of(&server).exchange(9, &round(1, &[(1, 0)]))) == [6]
    });
    link.lose_answers(false);
    let mut store = connect();
    assert_eq!(store.totals(2, &[(1, 5)]), [6]);
    assert_eq!(store.totals(3, &[(1, 1)]), [7]);
}

/// A round is one message and one answer, and so is a heartbeat.
#[test]
fn slow_link_delays_a_round_by_one_round_trip() {
    let (server, _store) = store!();
    let link = Proxy::to(server.port);
    let url = link.url(&server.agent_url(), server.port);
    let mut store = try_connect(&options(&url)).unwrap();
    // Makes the scripts known to the store.
    store.totals(1, &[(1, 1)]);
    store.beat(1, &[], Duration::from_secs(60));
    let one_way = Duration::from_millis(300);
    link.delay(one_way);
    let begin = Instant::now();
    assert_eq!(store.totals(2, &[(1, 1)]), [2]);
    let took = begin.elapsed();
    store.beat(1, &[], Duration::from_secs(60));
    let both = [took, begin.elapsed() - took];
    assert!(
        both.iter()
            .all(|time| (2 * one_way..4 * one_way).contains(time)),
        "{both:?}"
    );
}
