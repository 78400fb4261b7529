//! Garbled data, stopped or full stores, and hostile answers affect no other source, and each fault is reported.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use limiter_fleet::store::{Error, Fault, Options};
use limiter_tests::{need_redis, redis::free_port};

use super::{Asked, SLOW, expect_fault, options, refused, round, store, try_connect};

/// The source's next packets make a new record.
#[test]
fn garbled_record_counts_as_none() {
    let (redis, mut store) = store!();
    let key = "limiter:{edge}:s:http:10.0.0.1";
    let pack = |numbers: &str| {
        let script = format!("redis.call('SET',KEYS[1],struct.pack('<dddd',{numbers}))");
        redis.cli(&["EVAL", &script, "1", key]);
    };
    let mut number = 0;
    let mut starts_anew = |store: &mut Asked, what: &str| {
        assert_eq!(store.totals(number + 1, &[(1, 0)]), [0], "{what}");
        number += 2;
        let before = redis.micros();
        let record = store.exchange(1, &round(number, &[(1, 3)]))[0];
        assert_eq!(record.total, 3, "{what}");
        assert!(record.born >= before, "{what}");
    };
    let malformed = "0,1,1,1 -5,1,1,1 5.5,1,1,1 1e300,1,1,1 1/0,1,1,1 0/0,1,1,1 5,-1,1,1 5,1.5,1,1 \
        5,1e300,1,1 5,0/0,1,1 5,1,0/0,1 5,1,1/0,1 5,1,-1/0,1 5,1,0.5,1";
    for bad in malformed.split(' ') {
        pack(bad);
        starts_anew(&mut store, bad);
    }
    for bad in [
        &["SET", key, "junk"][..],
        &["SET", key, ""],
        &["RPUSH", key, "x"],
        &["HSET", key, "x", "y"],
    ] {
        redis.cli(&["DEL", key]);
        redis.cli(bad);
        starts_anew(&mut store, bad[0]);
    }
    // A valid record with an extreme debt affects this source, by at most the cap.
    pack("redis.call('TIME')[1]*1000000,7,9e15,0/0");
    let hostile = store.exchange(1, &round(100, &[(1, 1)]))[0];
    assert_eq!((hostile.total, hostile.spent), (8, SLOW.1));
    // The count is at its maximum.
    pack("5,9007199254740991,1,1");
    assert_eq!(store.totals(101, &[(1, 1)]), [1]);
}

#[test]
fn rounds_continue_after_a_garbled_round_number() {
    let (redis, mut store) = store!();
    let key = "limiter:{edge}:m:0000000000000001:0";
    for (number, bad) in (1..).zip([
        &["SET", key, "junk"],
        &["SET", key, "-1"],
        &["SET", key, "1e9"],
        &["SET", key, "nan"],
        &["SET", key, "0x99"],
        &["SET", key, "99999999999999999999"],
        &["RPUSH", key, "x"],
    ]) {
        redis.cli(&["DEL", key]);
        redis.cli(bad);
        for _ in 0..2 {
            assert_eq!(store.totals(number, &[(1, 1)]), [number], "{bad:?}");
        }
    }
}

#[test]
fn store_that_forgets_scripts_or_data_is_set_up_again() {
    let (mut redis, mut store) = store!();
    let one = |number| round(number, &[(1, 1)]);
    let first = store.exchange(1, &one(1))[0];
    redis.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(store.totals(2, &[(1, 1)]), [2]);
    redis.cli(&["FLUSHALL"]);
    let second = store.exchange(1, &one(3))[0];
    assert!(second.born > first.born && second.total == 1, "{second:?}");
    // The store restarts with its saved data.
    redis.cli(&["SAVE"]);
    redis.stop();
    redis.go_on();
    let error = expect_fault!(Fault::Unreachable(..), store.fails(4, &[(1, 1)]));
    assert!(error.is_of_the_connection());
    let mut store = Asked::of(&redis);
    for _ in 0..2 {
        let third = store.exchange(1, &one(4))[0];
        assert_eq!((third.born, third.total), (second.born, 2));
    }
}

#[test]
fn stopped_store_times_out_and_counts_a_round_once() {
    let (redis, _store) = store!();
    let quick = Options {
        timeout: Duration::from_millis(200),
        ..options(&redis.url())
    };
    let mut store = try_connect(&quick).unwrap();
    // Makes the script known to the store.
    store.totals(1, &[(1, 1)]);
    redis.pause();
    let began = Instant::now();
    let error = expect_fault!(Fault::Timeout(..), store.fails(2, &[(1, 5)]));
    assert!(began.elapsed() >= quick.timeout && error.is_of_the_connection());
    expect_fault!(Fault::Timeout(..), refused(&quick));
    redis.resume();
    let mut store = Asked::of(&redis);
    assert_eq!(store.totals(2, &[(1, 5)]), [6]);
    assert_eq!(store.totals(3, &[(1, 1)]), [7]);
}

#[test]
fn full_store_applies_no_round_by_half() {
    let (redis, mut store) = store!();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for number in [2, 3] {
        let error = expect_fault!(Fault::Full, store.fails(number, &[(1, 1), (2, 1)]));
        assert!(!error.is_of_the_connection());
    }
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.totals(2, &[(1, 1), (2, 1)]), [2, 1]);
}

#[test]
fn replica_is_refused_until_it_is_promoted() {
    let (redis, mut store) = store!();
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = expect_fault!(Fault::Replica, store.fails(1, &[(1, 1)]));
    assert!(error.is_of_the_connection());
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(Asked::of(&redis).totals(1, &[(1, 1)]), [1]);
}

/// The address has no server, or another kind of server.
#[test]
fn address_without_a_suitable_store_is_refused() {
    need_redis!();
    let unused = format!("redis://127.0.0.1:{}", free_port());
    for url in [&unused, "unix:///nonexistent/socket", &hostile("")] {
        expect_fault!(Fault::Unreachable(..), refused(&options(url)));
    }
    for reply in ["HTTP/1.1 400 Bad Request\r\n\r\n", "*1\r\n:5\r\n"] {
        expect_fault!(Fault::Invalid(..), refused(&options(&hostile(reply))));
    }
    for reply in [
        "$5\r\nhello\r\n",
        "$38\r\n# Server\r\nredis_version:6.2.1\r\nx:yyyyy\r\n",
        "$46\r\nredis_version:7.0.0\r\nredis_mode:sentinel\r\nxxxx\r\n",
        "$39\r\nredis_version:7.0.0\r\nredis_mode:cluster\r\n\r\n",
        "-ERR unknown command 'INFO'\r\n",
    ] {
        expect_fault!(Fault::NotAStore(..), refused(&options(&hostile(reply))));
    }
    let escape = refused(&options(&hostile("-ERR \x1b[31mred\x07\r\n")));
    assert!(matches!(escape, Error::At(_, Fault::Refused(_))));
    assert!(!escape.to_string().contains('\u{1b}'), "{escape}");
}

/// Starts a server that sends `reply` to one client. Returns its address.
fn hostile(reply: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1_024]);
        let _ = stream.write_all(reply.as_bytes());
        // Keeps the connection open until the client closes it.
        if !reply.is_empty() {
            let _ = stream.read(&mut [0; 1_024]);
        }
    });
    url
}
