//! Garbled data, stopped or full stores, and hostile answers affect no other source, and each fault is reported.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use limiter_fleet::store::{Error, Fault};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

use limiter_tests::{
    need_redis,
    redis::{Redis, Setup, free_port},
    sentinel::Sentinel,
};

use super::{Client, expect_fault, options, refused, store, try_connect};

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

/// The server's words are in the message, with what to do. Some come before the first request.
#[test]
fn messages_say_what_the_server_said() {
    let (redis, mut first) = store!();
    let says = |url: &str, words: [&str; 2]| {
        let error = refused(&options(url)).to_string();
        assert!(words.iter().all(|words| error.contains(words)), "{error}");
    };
    let url = redis.url();
    let of_user = redis.url_as("me", "geheim");
    says(
        &format!("{url}/99"),
        ["DB index is out of range", "without this database"],
    );
    says(&of_user, ["WRONGPASS", "ACL LIST"]);
    // This connection, and that of the next command.
    redis.cli(&["CONFIG", "SET", "maxclients", "1"]);
    for url in [&url, &of_user] {
        for _ in 0..5 {
            says(url, ["max number of clients reached", "raise maxclients"]);
        }
    }
    assert_eq!(first.totals(1, &[(1, 1)]), [1]);
    drop(redis);
    let renamed = Redis::start_as(Setup {
        file: Some(
            "bind 127.0.0.1\nrename-command EVAL \"\"\nrename-command EVALSHA \"\"\n".into(),
        ),
        ..Setup::default()
    });
    let error = Client::of(&renamed).fails(1, &[(1, 1)]);
    let error = expect_fault!(Fault::NotAStore(_), error).to_string();
    assert!(
        error.contains("unknown command 'EVALSHA'") && error.contains("renames"),
        "{error}"
    );
    let cluster = Redis::start_as(Setup {
        file: Some("bind 127.0.0.1\ncluster-enabled yes\n".into()),
        ..Setup::default()
    });
    let error = expect_fault!(Fault::NotAStore(_), refused(&options(&cluster.url())));
    let error = error.to_string();
    assert!(error.contains("is a cluster, but a fleet needs"), "{error}");
    let stale = Redis::start();
    stale.cli(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    stale.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    expect_fault!(Fault::Replica, refused(&options(&stale.url())));
    // Another kind of command gets this answer after the connection has been made.
    let masterdown = "$42\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n-MASTERDOWN Link with MASTER is down\r\n";
    let mut asked = try_connect(&options(&hostile(masterdown))).unwrap();
    let error = asked.fails(1, &[(1, 1)]);
    assert!(error.is_of_the_connection(), "{error}");
    // Of several servers, each one's error is told.
    let gone = format!("redis://127.0.0.1:1,127.0.0.1:{}", stale.port);
    let error = refused(&options(&gone)).to_string();
    for words in [
        "at 127.0.0.1:1 cannot be reached",
        &format!("127.0.0.1:{} is a replica", stale.port),
    ] {
        assert!(error.contains(words), "{error}");
    }
}

/// Of several servers, the primary is used.
#[test]
fn primary_among_several_servers_is_used() {
    let (redis, mut store) = store!();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    let replica = Redis::start_as(Setup {
        file: Some(format!(
            "bind 127.0.0.1\nreplicaof 127.0.0.1 {}\n",
            redis.port
        )),
        ..Setup::default()
    });
    let both = format!(
        "redis://127.0.0.1:{},127.0.0.1:{}",
        replica.port, redis.port
    );
    assert_eq!(
        try_connect(&options(&both)).unwrap().totals(2, &[(1, 1)]),
        [2]
    );
    limiter_tests::eventually("the replica has the record", || {
        replica.cli(&["DBSIZE"]) == "2"
    });
    drop(redis);
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    let mut store = try_connect(&options(&both)).unwrap();
    assert_eq!(store.totals(3, &[(1, 1)]), [3]);
}

/// Does work in a thread that finds these hosts.
fn with_hosts(hosts: &str, work: impl FnOnce() + Send) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, hosts).unwrap();
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    let in_thread = || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(none, "/", none, private, none).unwrap();
        mount(
            Some(file.path()),
            "/etc/hosts",
            none,
            MsFlags::MS_BIND,
            none,
        )
        .unwrap();
        work();
    };
    thread::scope(|scope| scope.spawn(in_thread).join()).unwrap();
}

/// Only one address of the name is the primary's.
#[test]
fn primary_among_the_addresses_of_a_name_is_used() {
    limiter_tests::need_kernel!();
    need_redis!();
    let addresses = ["127.0.0.1", "127.0.0.2"];
    let hosts = "127.0.0.1 store.example\n127.0.0.2 store.example\n";
    for (primary, replica) in [(0, 1), (1, 0)] {
        let port = free_port();
        let start = |address: usize, more: &str| {
            let file = Some(format!("bind {}\n{more}", addresses[address]));
            let setup = Setup {
                file,
                ..Setup::default()
            };
            Redis::at(port, setup)
        };
        let server = start(primary, "");
        let _replica = start(replica, "replicaof 127.0.0.1 1\n");
        let url = format!("redis://store.example:{port}");
        with_hosts(hosts, || {
            let mut store = try_connect(&options(&url)).unwrap();
            assert_eq!(store.totals(1, &[(1, 1)]), [1]);
        });
        drop(server);
        // Each address has its own error.
        with_hosts(hosts, || {
            let error = refused(&options(&url)).to_string();
            for words in [
                &format!("{}:{port} is a replica", addresses[1 - primary]),
                "cannot be reached",
            ] {
                assert!(error.contains(words), "{error}");
            }
        });
    }
}

/// The Sentinel, which demands a password, knows the primary, and the new one after a failover.
#[test]
fn sentinel_knows_the_primary_after_a_failover() {
    let (redis, _store) = store!();
    let replica = Redis::start_as(Setup {
        file: Some(format!(
            "bind 127.0.0.1\nreplicaof 127.0.0.1 {}\n",
            redis.port
        )),
        ..Setup::default()
    });
    let sentinel = Sentinel::start(&redis);
    let url = |name: &str| {
        format!(
            "redis+sentinel://127.0.0.1:1,127.0.0.1:{}/{name}",
            sentinel.port
        )
    };
    let mut store = try_connect(&options(&url("main"))).unwrap();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    let error = refused(&options(&url("other"))).to_string();
    assert!(
        error.contains("without a primary called 'other'"),
        "{error}"
    );
    limiter_tests::eventually("the replica has the record", || {
        replica.cli(&["DBSIZE"]) == "2"
    });
    drop(redis);
    assert!(store.fails(2, &[(1, 1)]).is_of_the_connection());
    let mut after = None;
    limiter_tests::eventually("the replica is the primary", || {
        after = try_connect(&options(&url("main"))).ok();
        after.is_some()
    });
    assert_eq!(after.unwrap().totals(2, &[(1, 1)]), [2]);
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
