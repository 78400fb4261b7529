//! Decisions of a local API that is made up: their order, kinds and ends.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    thread,
    time::Duration,
};

use limiter_tests::{
    eventually,
    exporter::{Exporter, loopback_up},
    feeds::{Feed, Server, end},
    hosts::Hosts,
    need_kernel, number,
    traffic::Traffic,
};
use nix::sys::signal::Signal;

use super::attached;

/// A decision, with the type, scope, value, origin and duration between spaces.
fn decision(words: &str) -> String {
    let words: Vec<_> = words.split(' ').collect();
    let [kind, scope, value, origin, duration] = words[..] else {
        panic!("five words: {words:?}");
    };
    format!(
        r#"{{"duration":"{duration}","origin":"{origin}","scenario":"x","scope":"{scope}","type":"{kind}","value":"{value}"}}"#
    )
}

fn answer(all: &[String]) -> String {
    format!(r#"{{"new":[{}],"deleted":null}}"#, all.join(","))
}

/// A feed from a server of answers, with further lines.
fn configure(feed: &Feed<'_>, server: &Server, lines: &str) {
    let key = feed.write("key", "a-key\n");
    feed.configure(&format!(
        "crowdsec = 'http://127.0.0.1:{}'\nkey-file = '{key}'\n{lines}",
        server.port
    ));
}

#[test]
fn local_decisions_come_first_where_room_is_short() {
    need_kernel!();
    let hosts = Hosts::new();
    loopback_up(&hosts.server);
    hosts.run("attach eth0 --rate 1000000 --burst 1000000 --max-bans 100");
    let server = Server::start(&hosts);
    let feed = Feed::new(&hosts, "room");
    configure(&feed, &server, "");
    let of_lists = |last: u8| decision(&format!("ban Ip 10.0.0.{last} lists 1h"));
    let local = |last: u8| decision(&format!("ban Ip 203.0.113.{last} crowdsec 1h"));
    let mut all: Vec<_> = (0..120).map(of_lists).collect();
    server.body("", &answer(&all));
    let first = feed.once("--once");
    first.expect(0);
    let words = "30 entries are left out (no room: attach again with a larger --max-bans), the first: 10.0.0.90 on eth0";
    assert!(first.stderr.contains(words), "{first:?}");
    // Local decisions take the place of those of lists that are in force.
    all.extend((0..20).map(local));
    server.body("", &answer(&all));
    let next = feed.once("--once");
    next.expect(0);
    assert!(
        next.stderr.contains("50 entries are left out (no room"),
        "{next:?}"
    );
    let bans = feed.bans();
    let count = |network: &str| bans.iter().filter(|ban| ban.starts_with(network)).count();
    assert_eq!([count("203.0.113."), count("10.0.0.")], [20, 70]);
    assert_eq!(Traffic::new(&hosts).passed("203.0.113.19", 3), 0);
}

#[test]
fn end_of_a_ban_follows_that_of_the_decision() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let server = Server::start(&hosts);
    let feed = Feed::new(&hosts, "ends");
    configure(&feed, &server, "");
    // The longer of two decisions is deleted, then a longer one is made.
    for (duration, minutes) in [("1h20m0s", 80.0), ("1h0m0s", 60.0), ("1h10m0s", 70.0)] {
        let decision = decision(&format!("ban Ip 203.0.113.7 crowdsec {duration}"));
        server.body("", &answer(&[decision]));
        feed.once("--once").expect(0);
        let bans = hosts.json("bans eth0 --json");
        let left = bans["bans"][0]["left_seconds"].as_f64().unwrap() / 60.0;
        assert!(left <= minutes && left > minutes - 5.0, "{bans}");
    }
}

#[test]
fn decisions_that_ban_nothing_are_counted_by_kind() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    hosts.run("allow add eth0 198.51.100.0/24");
    let server = Server::start(&hosts);
    let feed = Feed::new(&hosts, "kinds");
    configure(&feed, &server, "");
    let all = [
        "ban Ip 203.0.113.7 crowdsec 1h",
        "ban Ip 198.51.100.7 crowdsec 1h",
        "ban Range 198.51.0.0/16 crowdsec 1h",
        "captcha Ip 203.0.113.8 crowdsec 1h",
        "throttle Ip 203.0.113.9 crowdsec 1h",
        "ban Country FR crowdsec 1h",
        "ban Country DE crowdsec 1h",
        "ban AS 64500 crowdsec 1h",
        "ban Range 0.0.0.0/1 crowdsec 1h",
        "ban session x crowdsec 1h",
        "delay Ip 203.0.113.10 crowdsec 1h",
    ];
    server.body("", &answer(&all.map(decision)));
    let once = feed.once("--once");
    once.expect(0);
    let words = "2 entries are left out (countries: drop them with deny = { geoip = … } in the configuration), the first: 'ban' of Country FR for 1h";
    assert!(once.stderr.contains(words), "{once:?}");
    let asked = server.asked.lock().unwrap()[0].clone();
    assert!(
        asked.contains("startup=true&scopes=ip%2Crange%2Ccountry%2Cas "),
        "{asked}"
    );
    let exporter = Exporter::start(&hosts.server);
    let process = feed.start(Duration::from_secs(60));
    eventually("a round", || feed.status()["succeeded"].is_u64());
    for (reason, entries) in [
        ("captcha", 1_u32),
        ("throttle", 1),
        ("country", 2),
        ("autonomous_system", 1),
        ("too_large", 1),
        ("other_scope", 1),
        ("not_ban", 1),
        ("allowed", 1),
    ] {
        assert_eq!(feed.left_out(reason), u64::from(entries), "{reason}");
        let name = &feed.name;
        let name = format!("limiter_feed_left_out{{feed=\"{name}\",reason=\"{reason}\"}}");
        let entries = Some(f64::from(entries));
        eventually("the metric", || {
            exporter.samples().get(&name).copied() == entries
        });
    }
    assert_eq!(number(&feed.status()["wanted"]), 4);
    end(process, Signal::SIGTERM);
}

#[test]
fn throttled_sources_are_under_a_limit_until_the_decision_ends() {
    need_kernel!();
    let hosts = Hosts::new();
    loopback_up(&hosts.server);
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[lists]\nthrottled = []\n\
         [[limit]]\nname = \"slow\"\nmatch = { source = \"throttled\" }\nrate = \"1/h\"\nburst = 2\n",
    );
    let server = Server::start(&hosts);
    let feed = Feed::new(&hosts, "throttled");
    configure(&feed, &server, "");
    let once = |all: &[&str]| {
        let all: Vec<_> = all.iter().map(|words| decision(words)).collect();
        server.body("", &answer(&all));
        feed.once("--once").expect(0);
    };
    once(&[
        "throttle Ip 203.0.113.7 crowdsec 1h",
        "throttle Ip 203.0.113.9 crowdsec 1h",
        "ban Ip 203.0.113.9 crowdsec 1h",
        "throttle Range 198.51.100.0/24 crowdsec 1h",
        "throttle Ip 198.51.100.7 crowdsec 1h",
        "ban Range 198.51.100.0/30 crowdsec 1h",
        "ban Range 198.51.100.4/30 crowdsec 1h",
        "throttle Ip 203.0.113.11 crowdsec 8s",
    ]);
    let traffic = Traffic::new(&hosts);
    // The kernel ends a throttle without the feed.
    assert_eq!(traffic.passed("203.0.113.11", 5), 2);
    eventually("its end", || traffic.passed("203.0.113.11", 3) == 3);
    for (source, passed) in [
        ("203.0.113.7", 2),
        ("203.0.113.8", 5),
        // The ban of a prefix counts more than its throttle, and so does one around it.
        ("203.0.113.9", 0),
        ("198.51.100.1", 0),
        ("198.51.100.7", 0),
        ("198.51.100.8", 2),
    ] {
        assert_eq!(traffic.passed(source, 5), passed, "{source}");
    }
    let bans = hosts.json("bans eth0 --json");
    let throttles = |prefix: &str| {
        let mut all = bans["bans"].as_array().unwrap().iter();
        let ban = all.find(|ban| ban["prefix"] == prefix).unwrap();
        ban["throttles"].as_bool().unwrap()
    };
    assert!(throttles("203.0.113.7") && !throttles("203.0.113.9"));
    let checked = hosts.run("check eth0 203.0.113.7");
    assert!(checked.contains("slow"), "{checked}");
    // The list may have others, and throttles outlive the change of it.
    hosts.run("tier add eth0 throttled 203.0.113.100");
    for source in ["203.0.113.100", "198.51.100.10"] {
        assert_eq!(traffic.passed(source, 5), 2, "{source}");
    }
    // A ban of another origin lives beside a throttle of the same prefix.
    let both = hosts.run("ban eth0 198.51.100.0/24 --for 1h");
    assert!(!both.contains("stays banned"), "{both}");
    assert_eq!(traffic.passed("198.51.100.9", 5), 0);
    let checked = hosts.run("check eth0 198.51.100.9");
    assert!(checked.contains("hand"), "{checked}");
    hosts.run("unban eth0 198.51.100.0/24 --origin hand");
    assert_eq!(traffic.passed("198.51.100.9", 5), 2);
    // A throttle takes the place of a ban, and the other way round.
    once(&[
        "ban Ip 203.0.113.7 crowdsec 1h",
        "throttle Ip 203.0.113.9 crowdsec 1h",
    ]);
    assert_eq!(traffic.passed("203.0.113.9", 5), 2);
    let bans = hosts.json("bans eth0 --json");
    let mut all = bans["bans"].as_array().unwrap().iter();
    let first = all.find(|ban| ban["prefix"] == "203.0.113.7").unwrap();
    assert_eq!(first["throttles"], false, "{bans}");
}

#[test]
fn server_that_refuses_is_left_alone_as_long_as_it_says() {
    need_kernel!();
    let hosts = attached();
    loopback_up(&hosts.server);
    let server = Server::start(&hosts);
    let refusal = |pause: &str| {
        format!("HTTP/1.1 429 No\r\nConnection: close\r\nContent-Length: 0\r\n{pause}\r\n")
    };
    for (name, interval, pause, says) in [
        (
            "asks",
            "1s",
            "Retry-After: 3600\r\n",
            "the next try is in 1h",
        ),
        ("silent", "2h", "", "the next try is in 2h"),
    ] {
        server.answer(refusal(pause));
        let feed = Feed::new(&hosts, name);
        let url = format!("http://127.0.0.1:{}/", server.port);
        feed.configure(&format!("list = '{url}'\ninterval = '{interval}'"));
        let process = feed.start(Duration::from_secs(60));
        eventually("the error", || feed.said().contains(says));
        assert!(feed.said().contains("http status: 429"), "{}", feed.said());
        end(process, Signal::SIGTERM);
    }
    assert_eq!(server.asked.lock().unwrap().len(), 2);
}

#[test]
fn local_api_may_be_a_socket_of_root() {
    need_kernel!();
    let hosts = attached();
    let feed = Feed::new(&hosts, "socket");
    let key = feed.write("key", "a-key\n");
    let path = feed.write("socket", "");
    fs::remove_file(&path).unwrap();
    feed.configure(&format!("crowdsec = '{path}'\nkey-file = '{key}'"));
    feed.once("--once")
        .expect_error(1, &[&path, "No such file"]);
    let listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    let serving = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let lines = BufReader::new(&client).lines().map_while(Result::ok);
        let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        let body = answer(&[decision("ban Ip 203.0.113.7 crowdsec 1h")]);
        let length = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
        client.write_all(answer.as_bytes()).unwrap();
        head.join("\n").to_lowercase()
    });
    feed.once("--once").expect(0);
    assert_eq!(feed.bans(), ["203.0.113.7"]);
    let asked = serving.join().unwrap();
    assert!(asked.contains("x-api-key: a-key"), "{asked}");
}
