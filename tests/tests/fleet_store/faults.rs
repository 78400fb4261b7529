//! Garbled data, stopped or full stores, and hostile answers affect no other source, and each fault is reported.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use limiter_fleet::store::{Error, Fault};
use limiter_tests::{need_redis, redis::free_port};

use super::{Client, expect_fault, options, refused, store};

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
    assert_eq!(Client::of(&redis).totals(1, &[(1, 1)]), [1]);
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
