//! Hostile rows, full disks, replicas and hostile servers affect no other source, and each fault is reported.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpListener,
    path::PathBuf,
    thread,
    time::Duration,
};

use limiter_fleet::{
    conflicts::Held,
    store::{Edit, Error, Fault, LIMITS, MEMBERS, Options, PREFIXES},
};
use limiter_tests::redis::free_port;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::{
    Client, SLOW, Server, expect_fault,
    members::{ALIVE, held},
    options, refused, round, store,
    stored_lists::add,
    try_connect,
};

const END: &str = "9223372036854775807";

/// The owner of the database can write any row. Each source is on its own.
#[test]
fn extreme_records_are_bounded_or_begin_anew() {
    let (server, mut store) = store!();
    let mut number = 0;
    let mut meets = |row: &str| {
        server.sql("TRUNCATE limiter.records");
        server.sql(&format!(
            "INSERT INTO limiter.records VALUES ('10.0.0.1', 'http', 'edge', {row})"
        ));
        number += 1;
        let record = store.exchange(1, &round(number, &[(1, 3), (2, 1)]));
        assert_eq!(record[1].total, 1, "{row}");
        (record[0].total, record[0].spent)
    };
    let seconds = |n: u64| n * super::SECOND;
    let most = (1_u64 << 53) - 1;
    assert_eq!(
        meets(&format!("5, 7, {END}, 1, {END}")),
        (10, SLOW.1),
        "debt without end"
    );
    assert_eq!(
        meets(&format!("5, 7, -{END}, 1, {END}")),
        (10, seconds(3)),
        "a TAT before all times"
    );
    assert_eq!(
        meets(&format!("5, {most}, 0, 1, {END}")),
        (3, seconds(3)),
        "the count is full"
    );
    assert_eq!(
        meets(&format!("5, 7, 0, 1, -{END}")),
        (3, seconds(3)),
        "over"
    );
    // These are refused by the agent, and do not outlive their record.
    for row in [format!("-5, 7, 0, 1, {END}"), format!("5, -7, 0, 1, {END}")] {
        server.sql("TRUNCATE limiter.records");
        server.sql(&format!(
            "INSERT INTO limiter.records VALUES ('10.0.0.1', 'http', 'edge', {row})"
        ));
        expect_fault!(Fault::Invalid(_), store.fails(1_000, &[(1, 0)]));
    }
}

#[test]
fn rows_of_others_are_bounded_and_not_shown() {
    let (server, mut store) = store!();
    let own = [held("all", 1)];
    let red = Held {
        words: "\u{1b}[31mred".to_owned(),
        ..held("all", 9)
    };
    let now = server.micros();
    server.sql(&format!(
        "INSERT INTO limiter.members SELECT 'edge', i, 'x', {now} + i % 7 FROM generate_series(1000, 21000) i;
         INSERT INTO limiter.members VALUES ('edge', 1, repeat('x', 500000), {now}), ('edge', 2, 'x', {END}),
             ('edge', 3, 'x', -{END});
         INSERT INTO limiter.limits SELECT 'edge', 'x' || i, {now} FROM generate_series(1, 2000) i;
         INSERT INTO limiter.limits VALUES ('edge', repeat('x', 2000), {now}), ('edge', 'y', {END}),
             ('edge', 'z', -{END});
         INSERT INTO limiter.revisions VALUES ('edge', 7)"
    ));
    server.sql(&format!(
        "INSERT INTO limiter.limits VALUES ('edge', '{}', {now})",
        serde_json::json!(red)
    ));
    for _ in 0..3 {
        let beat = store.beat(1, &own, ALIVE);
        assert!(
            beat.hosts as usize <= MEMBERS && beat.oldest <= ALIVE,
            "{beat:?}"
        );
        assert!(beat.held.iter().all(|held| *held == own[0]), "{beat:?}");
    }
    let count = |table: &str| server.sql(&format!("SELECT count(*) FROM limiter.{table}"));
    for (table, most) in [("members", MEMBERS), ("limits", LIMITS)] {
        assert!(count(table).parse::<usize>().unwrap() <= most, "{table}");
    }
    // Lists.
    let edit = add(&["192.0.2.0/24"], None);
    store.try_edit(&edit).unwrap();
    server.sql(
        "INSERT INTO limiter.entries SELECT 'edge', 'deny', p, 'x', 1, NULL
             FROM unnest('{junk,10.0.0.1/8,10.0.0.0/33}'::text[]) p;
         INSERT INTO limiter.entries VALUES ('edge', 'deny', '10.0.0.0/8', repeat('x', 5000000), 1),
             ('edge', 'deny', '10.0.0.0/9', chr(27), 1), ('edge', 'deny', repeat('1', 2000), 'x', 1)",
    );
    assert_eq!(store.deny().len(), 1);
    server.sql(&format!(
        "INSERT INTO limiter.entries SELECT 'edge', 'deny', i, 'x', 1 FROM generate_series(8, {PREFIXES}) i"
    ));
    let is_full = |error: &Error| matches!(error, Error::ListFull(list, _) if list == "deny");
    // The list is just full, and an existing prefix needs no room.
    assert_eq!(store.try_edit(&edit).unwrap(), 1);
    assert!(is_full(
        &store.try_edit(&add(&["203.0.113.0/24"], None)).unwrap_err()
    ));
    assert_eq!(server.entries(), PREFIXES.to_string());
    server.sql("INSERT INTO limiter.entries VALUES ('edge', 'deny', 'more', 'x', 1)");
    let read = store.lists(&["deny", "other"]).lists;
    assert!(is_full(read[0].as_ref().unwrap_err()) && read[1].is_ok());
    let remove = Edit::Remove(super::stored_lists::prefixes(&["192.0.2.0/24"]));
    assert_eq!(store.try_edit(&remove).unwrap(), 1);
}

/// The replica is refused. Of several servers, the primary is used. After a failover, rounds go on.
#[test]
fn replica_is_refused_until_it_is_promoted() {
    let (mut server, mut store) = store!();
    let replica = server.replica();
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    let error = expect_fault!(Fault::Replica, refused(&options(&replica.agent_url())));
    assert!(error.is_of_the_connection());
    let both = format!(
        "postgres://edge:geheim@127.0.0.1:{},127.0.0.1:{}/edge",
        replica.port, server.port
    );
    let mut store = try_connect(&options(&both)).unwrap();
    assert_eq!(store.totals(2, &[(1, 1)]), [2]);
    limiter_tests::eventually("the replica has the record", || {
        replica.sql("SELECT total FROM limiter.records") == "2"
    });
    server.stop();
    let error = refused(&options(&both)).to_string();
    let each = [
        format!("{} is a replica", replica.port),
        format!("{} cannot be reached", server.port),
    ];
    assert!(each.iter().all(|words| error.contains(words)), "{error}");
    let lost = store.fails(3, &[(1, 1)]);
    let error = expect_fault!(Fault::Unreachable(_) | Fault::Closed(_), lost);
    assert!(error.is_of_the_connection());
    replica.promote();
    let mut store = try_connect(&options(&both)).unwrap();
    // Neither repeated.
    assert_eq!(store.totals(2, &[(1, 1)]), [2]);
    assert_eq!(store.totals(3, &[(1, 1)]), [3]);
}

/// A small disk, mounted until this is dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap();
        let options = Some("size=4m,mode=0700,uid=65534,gid=65534");
        mount(
            Some("tmpfs"),
            &path,
            Some("tmpfs"),
            MsFlags::empty(),
            options,
        )
        .unwrap();
        Self(path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// The disk of the records has no room for another page.
#[test]
fn full_disk_applies_no_round_by_half() {
    limiter_tests::need_kernel!();
    let (server, mut store) = store!();
    let disk = Disk::new(server.folder().join("disk"));
    let path = disk.0.display();
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{path}'"));
    for table in ["TABLE limiter.records", "INDEX limiter.records_pkey"] {
        server.sql(&format!("ALTER {table} SET TABLESPACE small"));
    }
    assert_eq!(store.totals(1, &[(1, 1)]), [1]);
    let filler = disk.0.join("filler");
    let full = fs::write(&filler, vec![0; 5 << 20]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    // One source is there already, and many are not.
    let many: Vec<_> = (1..=1_000).map(|source| (source, 1)).collect();
    for number in [2, 3] {
        let error = expect_fault!(Fault::Full, store.fails(number, &many));
        assert!(!error.is_of_the_connection());
        assert_eq!(Client::of(&server).totals(1, &[(1, 0)]), [1]);
    }
    fs::remove_file(filler).unwrap();
    let totals = store.totals(2, &many);
    assert_eq!((totals[0], totals[1], totals[999]), (2, 1, 1));
}

#[test]
fn address_without_a_suitable_store_is_refused() {
    if !Server::is_there("address_without_a_suitable_store_is_refused") {
        return;
    }
    let url = |port| format!("postgres://edge:geheim@127.0.0.1:{port}/edge");
    for url in [
        url(free_port()),
        "postgres:///edge?host=/nonexistent".to_owned(),
        hostile(b""),
    ] {
        expect_fault!(Fault::Unreachable(..), refused(&options(&url)));
    }
    let long = [b"E\x10\x00\x00\x00".to_vec(), vec![b'x'; 1 << 20]].concat();
    // The beginning of a very long message.
    let http = hostile(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let quick = Options {
        timeout: Duration::from_millis(250),
        ..options(&http)
    };
    expect_fault!(Fault::Timeout(..), refused(&quick));
    for reply in [b"Z\0\0\0\x05I".to_vec(), long] {
        expect_fault!(Fault::Invalid(..), refused(&options(&hostile(&reply))));
    }
    let escape = b"E\0\0\0\x20SFATAL\0C99999\0M\x1b[31mgeheim\0\0";
    let escape = expect_fault!(Fault::Refused(..), refused(&options(&hostile(escape))));
    let text = format!("{escape} {escape:?}");
    assert!(
        !text.contains('\u{1b}') && !text.contains("geheim"),
        "{text}"
    );
    // A server without the schema, and one with another version.
    let server = Server::start();
    server.sql(
        "CREATE OR REPLACE FUNCTION limiter.version() RETURNS integer LANGUAGE sql AS 'SELECT 3'",
    );
    expect_fault!(Fault::NotAStore(..), refused(&options(&server.agent_url())));
    server.sql("DROP SCHEMA limiter CASCADE");
    let error = expect_fault!(Fault::NotAStore(..), refused(&options(&server.agent_url())));
    assert!(
        error.to_string().contains("limiter agent schema"),
        "{error}"
    );
    let other = format!("{}r", server.agent_url());
    expect_fault!(Fault::NotAStore(..), refused(&options(&other)));
    let mut client = Client::of(&Server::start());
    expect_fault!(Fault::Unreachable(..), client.fails(1, &[(1, 1)]));
}

/// Starts a server that sends `reply` to one client. Returns its URL.
fn hostile(reply: &[u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "postgres://edge:geheim@{}/edge",
        listener.local_addr().unwrap()
    );
    let reply = reply.to_vec();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1_024]);
        let _ = stream.write_all(&reply);
        // Keeps the connection open until the client closes it.
        if !reply.is_empty() {
            let _ = stream.read(&mut [0; 1_024]);
        }
    });
    url
}
