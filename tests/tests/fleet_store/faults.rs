//! Garbled data, stopped or full stores, and hostile answers affect no other source, and each fault is reported.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use limiter_fleet::store::{Error, Fault, Options};
use limiter_tests::{
    need_redis,
    redis::{Redis, free_port},
};

use super::{Asked, expect_fault, options, refused, round, store, totals, try_connect};

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
        assert_eq!(store.records(&[1])[0].born, 0, "{what}");
        number += 1;
        let before = store.now();
        let record = store.exchange(1, &round(number, &[(1, 3)]))[0];
        assert_eq!(record.total, 3, "{what}");
        assert!(record.born >= before, "{what}");
    };
    for bad in [
        "0,1,1,1",
        "-5,1,1,1",
        "5.5,1,1,1",
        "1e300,1,1,1",
        "1/0,1,1,1",
        "0/0,1,1,1",
        "5,-1,1,1",
        "5,1.5,1,1",
        "5,1e300,1,1",
        "5,0/0,1,1",
        "5,1,0/0,1",
        "5,1,1/0,1",
        "5,1,-1/0,1",
        "5,1,0.5,1",
    ] {
        pack(bad);
        starts_anew(&mut store, bad);
    }
    redis.cli(&["SET", key, "junk"]);
    starts_anew(&mut store, "text");
    redis.cli(&["SET", key, ""]);
    starts_anew(&mut store, "nothing");
    for command in [
        ["RPUSH", key, "x"].as_slice(),
        &["HSET", key, "x", "y"],
        &["SADD", key, "x"],
        &["ZADD", key, "1", "x"],
        &["XADD", key, "*", "x", "y"],
    ] {
        redis.cli(&["DEL", key]);
        redis.cli(command);
        starts_anew(&mut store, command[0]);
    }
    // A valid record with an extreme debt affects this source, by at most the cap.
    pack("redis.call('TIME')[1]*1000000,7,9e15,0/0");
    let hostile = store.exchange(1, &round(100, &[(1, 1)]))[0];
    assert_eq!((hostile.total, hostile.spent), (8, super::SLOW.1));
    // The count is at its maximum.
    pack("5,9007199254740991,1,1");
    assert_eq!(store.exchange(1, &round(101, &[(1, 1)]))[0].total, 1);
}

#[test]
fn rounds_continue_after_a_garbled_round_number() {
    let (redis, mut store) = store!();
    let key = "limiter:{edge}:m:0000000000000001:0";
    let mut total = 0;
    for (i, value) in [
        "junk",
        "-1",
        "1e9",
        "inf",
        "nan",
        "0x99",
        "99999999999999999999",
    ]
    .into_iter()
    .enumerate()
    {
        redis.cli(&["SET", key, value]);
        total += 1;
        let round = round(i as u64 + 1, &[(1, 1)]);
        assert_eq!(totals(&store.exchange(1, &round)), [total], "{value}");
        assert_eq!(totals(&store.exchange(1, &round)), [total], "{value}");
    }
    redis.cli(&["DEL", key]);
    redis.cli(&["RPUSH", key, "x"]);
    assert_eq!(
        totals(&store.exchange(1, &round(9, &[(1, 1)]))),
        [total + 1]
    );
    assert_eq!(
        totals(&store.exchange(1, &round(9, &[(1, 1)]))),
        [total + 1]
    );
}

#[test]
fn store_that_forgets_scripts_or_data_is_set_up_again() {
    let (mut redis, mut store) = store!();
    let first = store.exchange(1, &round(1, &[(1, 1)]))[0];
    redis.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(store.exchange(1, &round(2, &[(1, 1)]))[0].total, 2);
    redis.cli(&["FLUSHALL"]);
    let second = store.exchange(1, &round(3, &[(1, 1)]))[0];
    assert!(second.born > first.born && second.total == 1, "{second:?}");
    // The store restarts with its saved data.
    redis.restart();
    let error = expect_fault!(
        Fault::Unreachable(..),
        store.try_exchange(1, &round(4, &[(1, 1)])).unwrap_err()
    );
    assert!(error.is_of_the_connection());
    let mut store = Asked::of(&redis);
    let third = store.exchange(1, &round(4, &[(1, 1)]))[0];
    assert_eq!((third.born, third.total), (second.born, 2));
    assert_eq!(store.exchange(1, &round(4, &[(1, 1)]))[0].total, 2);
    redis.restart_empty();
    let fourth = Asked::of(&redis).exchange(1, &round(4, &[(1, 1)]))[0];
    assert!(fourth.born > third.born && fourth.total == 1, "{fourth:?}");
}

#[test]
fn stopped_store_times_out_and_counts_a_round_once() {
    need_redis!();
    let redis = Redis::start();
    let short = Options {
        response_timeout: Duration::from_millis(200),
        ..options(&redis.url())
    };
    let mut store = try_connect(&short).unwrap();
    // Makes the script known to the store.
    store.records(&[1]);
    redis.pause();
    let began = Instant::now();
    let error = store.try_exchange(1, &round(1, &[(1, 5)])).unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(
        matches!(error, Error::At(_, Fault::Timeout { .. })),
        "{error}"
    );
    assert!(error.is_of_the_connection());
    let quick = Options {
        connect_timeout: Duration::from_millis(100),
        response_timeout: Duration::from_millis(100),
        ..options(&redis.url())
    };
    expect_fault!(Fault::Timeout(..), refused(&quick));
    redis.resume();
    let mut store = Asked::of(&redis);
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 5)]))), [5]);
    assert_eq!(totals(&store.exchange(1, &round(2, &[(1, 1)]))), [6]);
}

#[test]
fn full_store_applies_no_round_by_half() {
    let (redis, mut store) = store!();
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 1)]))), [1]);
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    for number in [2, 3] {
        let error = expect_fault!(
            Fault::Full,
            store
                .try_exchange(1, &round(number, &[(1, 1), (2, 1)]))
                .unwrap_err()
        );
        assert!(!error.is_of_the_connection());
    }
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let answer = store.exchange(1, &round(2, &[(1, 1), (2, 1)]));
    assert_eq!(totals(&answer), [2, 1]);
}

/// The address has no server, or another kind of server.
#[test]
fn address_without_a_suitable_store_is_refused() {
    need_redis!();
    let unused = format!("redis://127.0.0.1:{}", free_port());
    expect_fault!(Fault::Unreachable(..), refused(&options(&unused)));
    expect_fault!(
        Fault::Unreachable(..),
        refused(&options("unix:///nonexistent/socket"))
    );
    let old = b"$38\r\n# Server\r\nredis_version:6.2.1\r\nx:yyyyy\r\n".as_slice();
    let sentinel = b"$46\r\nredis_version:7.0.0\r\nredis_mode:sentinel\r\nxxxx\r\n";
    let cluster = b"$39\r\nredis_version:7.0.0\r\nredis_mode:cluster\r\n\r\n";
    for (what, reply) in [
        ("not Redis", b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice()),
        ("another type", b"*1\r\n:5\r\n"),
        ("no field", b"$5\r\nhello\r\n"),
        ("old", old),
        ("Sentinel", sentinel),
        ("cluster", cluster),
        ("unknown", b"-ERR unknown command 'INFO'\r\n"),
        ("gone", b""),
        ("escape", b"-ERR \x1b[31mred\x07\r\n"),
    ] {
        let error = refused(&options(&hostile(reply)));
        println!("{what}: {error}");
        assert!(!error.to_string().contains('\u{1b}'), "{what}");
        let is_right = match what {
            "not Redis" | "another type" => matches!(error, Error::At(_, Fault::Invalid { .. })),
            "no field" | "old" | "Sentinel" | "cluster" | "unknown" => {
                matches!(error, Error::At(_, Fault::NotAStore { .. }))
            }
            "gone" => matches!(error, Error::At(_, Fault::Unreachable { .. })),
            _ => matches!(error, Error::At(_, Fault::Refused { .. })),
        };
        assert!(is_right, "{what}: {error:?}");
    }
}

/// Starts a server that sends `reply` to one client. Returns its address.
fn hostile(reply: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1_024]);
        let _ = stream.write_all(reply);
        // Keeps the connection open until the client closes it.
        if !reply.is_empty() {
            let _ = stream.read(&mut [0; 1_024]);
        }
    });
    url
}

#[test]
fn replica_is_refused_until_it_is_promoted() {
    let (redis, mut store) = store!();
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = expect_fault!(
        Fault::Replica,
        store.try_exchange(1, &round(1, &[(1, 1)])).unwrap_err()
    );
    assert!(error.is_of_the_connection());
    redis.cli(&["REPLICAOF", "NO", "ONE"]);
    let mut store = Asked::of(&redis);
    assert_eq!(totals(&store.exchange(1, &round(1, &[(1, 1)]))), [1]);
}
