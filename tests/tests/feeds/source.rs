//! Sources that answer late, in part or without need.

use std::{
    io::Write,
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    command::ip,
    eventually,
    exporter::{Exporter, loopback_up},
    feeds::{Feed, Server, end},
    hosts::on,
    need_kernel, number,
};
use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};

use super::attached;

/// An answer of CrowdSec with bans of these addresses, and the end of others.
fn decisions(new: &[&str], deleted: &[&str]) -> String {
    let decisions = |all: &[&str]| {
        let table = |value: &&str| {
            format!(
                r#"{{"duration":"1h","origin":"x","scenario":"x","scope":"Ip","type":"ban","value":"{value}"}}"#
            )
        };
        all.iter().map(table).collect::<Vec<_>>().join(",")
    };
    let (new, deleted) = (decisions(new), decisions(deleted));
    format!(r#"{{"new":[{new}],"deleted":[{deleted}]}}"#)
}

#[test]
fn short_answer_of_crowdsec_ends_no_ban() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let server = Server::start(&hosts);
    let feed = Feed::new(&hosts, "short");
    let key = feed.write("key", "a-key\n");
    let url = format!("http://127.0.0.1:{}", server.port);
    feed.configure(&format!(
        "crowdsec = '{url}'\nkey-file = '{key}'\ninterval = '1s'"
    ));
    let all = ["203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4"];
    server.body("", &decisions(&all, &[]));
    feed.once("--once").expect(0);
    assert_eq!(feed.bans(), all);
    // An error of its database cuts the answer off. One ban was reported to have ended.
    server.body("", &decisions(&all[..1], &all[1..2]));
    let short = feed.once("--once");
    short.expect(0);
    assert_eq!(feed.bans(), [all[0], all[2], all[3]]);
    let words = "lacks 2 bans without reporting their end, such as 203.0.113.3";
    assert!(short.stderr.contains(words), "{short:?}");

    // Nor does a process that goes on, whose next question is one for changes.
    server.body("", &decisions(&[], &[]));
    let process = feed.start(Duration::from_secs(60));
    eventually("two answers", || server.asked.lock().unwrap().len() > 3);
    assert_eq!(feed.bans().len(), 3);
    eventually("the state", || feed.status()["held_back"] == 3);
    assert!(hosts.run("status").contains("3 bans held back"));
    let said = feed.said();
    assert!(said.contains("lacks 3 bans"), "{said}");
    // The whole answer comes with the next question for all, the end of a ban with the next one.
    server.body("", &decisions(&all[2..], &all[..1]));
    eventually("the end that was reported", || feed.bans() == all[2..]);
    eventually("none is held back", || feed.status()["held_back"] == 0);
    end(process, Signal::SIGTERM);
}

#[test]
fn interface_that_is_off_does_not_make_the_source_be_read_again() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    ip(
        &hosts.server.namespace,
        "link add other0 type veth peer name other1",
    );
    hosts.run("attach other0 --rate 1000000 --burst 1000000");
    let server = Server::start(&hosts);
    server.body("ETag: \"one\"\r\n", "203.0.113.7\n");
    let feed = Feed::new(&hosts, "off");
    let url = format!("http://127.0.0.1:{}/", server.port);
    let file = format!("list = '{url}'\ninterfaces = ['eth0', 'other0']\ninterval = '1s'");
    feed.configure(&file);
    let process = feed.start(Duration::from_secs(60));
    eventually("the ban", || feed.bans() == ["203.0.113.7"]);
    server.answer("HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n");
    // Taken off by force.
    hosts.run("detach other0");
    eventually("the error", || {
        let error = feed.status()["error"].to_string();
        error.contains("other0")
    });
    // The next rounds ask for changes, and bring what was read to the other interface.
    let before = server.asked.lock().unwrap().len();
    hosts.run("unban eth0 203.0.113.7");
    eventually("the ban is back", || feed.bans() == ["203.0.113.7"]);
    hosts.run("attach other0 --rate 1000000 --burst 1000000");
    eventually("all have the ban", || feed.status()["error"].is_null());
    let other = hosts.json("bans other0 --json");
    assert_eq!(other["bans"][0]["prefix"], "203.0.113.7", "{other}");
    let asked = server.asked.lock().unwrap();
    assert!(asked.len() > before);
    let has_tag = |request: &String| request.to_lowercase().contains("if-none-match: \"one\"");
    assert!(asked[before..].iter().all(has_tag), "{asked:?}");
    drop(asked);
    end(process, Signal::SIGTERM);
}

#[test]
fn list_that_is_a_pipe_is_an_error() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "pipe");
    let list = feed.write("list", "203.0.113.7\n");
    feed.configure(&format!("list = '{list}'\ninterval = '1s'"));
    let exporter = Exporter::start(&hosts.server);
    let up = || {
        let name = format!("limiter_feed_up{{feed=\"{}\"}}", feed.name);
        exporter.samples().get(&name).copied()
    };
    let process = feed.start(Duration::from_secs(60));
    eventually("the feed is up", || up() == Some(1.0));
    std::fs::remove_file(&list).unwrap();
    mkfifo(&*list, Mode::S_IRWXU | Mode::S_IROTH).unwrap();
    eventually("the feed is down", || up() == Some(0.0));
    let error = feed.status()["error"].to_string();
    assert!(error.contains(&list) && error.contains("a pipe"), "{error}");
    end(process, Signal::SIGTERM);
    feed.once("--once").expect_error(1, &["not a regular file"]);
    assert_eq!(feed.bans(), ["203.0.113.7"]);
}

/// A server that sends a byte of a long list now and then.
#[test]
fn source_that_takes_too_long_fails() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let listener = on(&hosts.server, || TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
        let _ = client.write_all(head.as_bytes());
        while client.write_all(b"#").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let feed = Feed::new(&hosts, "slow");
    feed.configure(&format!(
        "list = 'http://127.0.0.1:{port}/'\ntimeout = '1s'"
    ));
    let begun = Instant::now();
    feed.once("--once")
        .expect_error(1, &["127.0.0.1", "timeout"]);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(number(&hosts.status()["bans"]["capacity"]), 65_536);
}
