//! `watch` shows who sends, whatever limit the packets meet: several at once, packets that pass, and sums of a sample.

use std::time::{Duration, Instant};

use limiter_common::abi::events::WATCHERS;
use limiter_tests::{
    constants, eventually,
    files::{Folder, at_driver},
    hosts::Hosts,
    need_kernel, need_program, number,
    packet::arp,
    traffic::{Flood, Traffic, udp},
    watcher::Watcher,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// A network's limit, as an attacker and its neighbours share it, beside ports without a limit.
const FILE: &str = r#"
interfaces = ["eth0"]

[lists]
allow = ["198.51.100.0/24"]
deny = ["203.0.113.66"]

[[limit]]
name = "each"
match = { destination_port = 53 }
rate = "1k/s"
burst = 1000

[[limit]]
name = "network"
match = { destination_port = 53 }
key = "/24,/48"
rate = "10/s"
burst = 10
"#;

fn from(hosts: &Hosts, source: &str, port: u16) -> Vec<u8> {
    udp(hosts, source.parse().unwrap(), port)
}

/// True if the program that runs looks at packets that pass.
fn looks_at_passed(hosts: &Hosts) -> bool {
    constants::of_program(number(&hosts.status()["program_id"])).passed != 0
}

/// Verdict, reason and limit of an event.
fn why(event: &Value) -> [&Value; 3] {
    ["verdict", "reason", "limit"].map(|key| &event[key])
}

#[test]
fn passed_packets_are_shown_with_their_reasons() {
    need_kernel!();
    need_program!("bpftool");
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    assert!(!looks_at_passed(&hosts));
    let traffic = Traffic::new(&hosts);
    let mut watcher = Watcher::start(&hosts, &["--json", "--passed"]);
    assert!(looks_at_passed(&hosts));
    let mut drops = Watcher::start(&hosts, &["--json"]);
    let mut unlimited = Watcher::start(&hosts, &["--json", "--reason", "unlimited"]);
    let asked = arp();
    let packets = [
        (
            from(&hosts, "192.0.2.7", 80),
            json!(["pass", "unlimited", null]),
        ),
        (
            from(&hosts, "198.51.100.7", 53),
            json!(["pass", "allowed", null]),
        ),
        (
            from(&hosts, "192.0.2.7", 53),
            json!(["pass", "admitted", "each"]),
        ),
        (
            from(&hosts, "203.0.113.66", 80),
            json!(["drop", "deny", null]),
        ),
        (asked.to_vec(), json!(["pass", "not_ip", null])),
    ];
    for (frame, wanted) in &packets {
        traffic.send(&[frame]);
        let event = watcher.event();
        assert_eq!(json!(why(&event)), *wanted, "{event}");
    }
    assert_eq!(drops.event()["reason"], "deny");
    assert_eq!(unlimited.event()["source"], "192.0.2.7");

    // The last one that wants passed packets ends it, also through a change of the settings.
    assert_eq!(watcher.end().sums(), (5, 0));
    assert!(looks_at_passed(&hosts), "another one watches");
    hosts.run("set eth0 --limit each --rate 2k/s");
    traffic.send(&[&from(&hosts, "192.0.2.8", 80)]);
    assert_eq!(unlimited.event()["source"], "192.0.2.8");
    unlimited.end();
    assert!(!looks_at_passed(&hosts), "nobody wants them any more");
    drops.end();
}

#[test]
fn next_change_removes_what_a_killed_watcher_has_left() {
    need_kernel!();
    need_program!("bpftool");
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    assert!(!looks_at_passed(&hosts));
    let watcher = Watcher::start(&hosts, &["--passed"]);
    watcher.signal(Signal::SIGKILL);
    assert_eq!(watcher.wait().status, -1);
    assert!(looks_at_passed(&hosts), "nobody is there to change it");
    hosts.run("set eth0 --limit each --rate 2k/s");
    assert!(!looks_at_passed(&hosts));
    // The same in a trial: its fallback has lost it, too.
    hosts.run("set eth0 --limit each --rate 3k/s --try 60s");
    let watcher = Watcher::start(&hosts, &["--passed"]);
    assert!(looks_at_passed(&hosts));
    watcher.end();
    assert!(!looks_at_passed(&hosts));
    hosts.run("keep eth0 --revert");
    assert!(!looks_at_passed(&hosts));
}

#[test]
fn several_watch_at_once_each_with_its_filter() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let traffic = Traffic::new(&hosts);
    let flood = from(&hosts, "192.0.2.66", 9);
    let needles = ["192.0.2.7", "192.0.2.8"].map(|source| from(&hosts, source, 9));
    traffic.send(&[&flood, &needles[0], &needles[1]]);
    let everything = Watcher::start(&hosts, &[]);
    let mut others: Vec<_> = (1..WATCHERS)
        .map(|number| {
            let source = if number % 2 == 1 {
                "192.0.2.7"
            } else {
                "192.0.2.8"
            };
            Watcher::start(&hosts, &["--json", "--source", source])
        })
        .collect();
    let one_more = hosts.limiter("watch eth0");
    one_more.expect_error(1, &["16 processes watch 'eth0' already"]);
    let mut frames = vec![&flood[..]; 2_000];
    frames.insert(500, &needles[0]);
    frames.insert(1_500, &needles[1]);
    traffic.send(&frames);
    for (index, other) in others.iter_mut().enumerate() {
        let wanted = if index % 2 == 0 {
            "192.0.2.7"
        } else {
            "192.0.2.8"
        };
        assert_eq!(other.event()["source"], wanted, "watcher {index}");
    }
    let (shown, lost) = everything.end().sums();
    assert_eq!(shown + lost, 2_002, "{shown} shown");

    // Another one takes the place of a killed one, and its ring buffer.
    let killed = others.pop().unwrap();
    let id = killed.id();
    killed.signal(Signal::SIGKILL);
    killed.wait();
    let mut next = Watcher::start(&hosts, &["--json", "--source", "192.0.2.8"]);
    assert_ne!(next.id(), id);
    traffic.send(&[&needles[1]]);
    assert_eq!(next.event()["source"], "192.0.2.8");
    for other in others {
        let ended = other.end();
        assert_eq!(ended.sums().1, 0, "{ended:#?}");
    }
    next.end();
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists(), "pins are left");
}

/// The rows of a table, by one field.
fn rows<'a>(table: &'a Value, field: &str) -> Vec<(&'a Value, f64, f64)> {
    let rows = table["senders"].as_array().unwrap().iter();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap();
    rows.map(|row| {
        let packets = number(row, "packets_per_second");
        (&row[field], packets, number(row, "dropped"))
    })
    .collect()
}

/// An attacker whose network's limit refuses its packets, a neighbour in that network, and one that no limit concerns. A
/// reading by source names them, where the sources of limits show nothing of the attacker.
#[test]
fn table_names_senders_that_no_source_of_a_limit_shows() {
    need_kernel!();
    let hosts = Hosts::new();
    let folder = Folder::new();
    let path = folder.write("limiter.toml", at_driver(FILE));
    hosts.run(&format!("attach eth0 --config {path}"));
    let frames = |source, port, times| vec![from(&hosts, source, port); times];
    let mut round = frames("192.0.2.66", 53, 40);
    round.extend(frames("192.0.2.7", 53, 1));
    round.extend(frames("198.18.0.9", 80, 9));
    let sent_per_round = round.len() as f64;
    let flood = Flood::start(&hosts, round, Duration::from_millis(2));
    let seen = || number(&hosts.status()["seen"]["packets"]);
    let (before, begun) = (seen(), Instant::now());
    let table = hosts.json("watch eth0 --by source,port --for 3s --json");
    let meanwhile = (seen() - before) as f64 / begun.elapsed().as_secs_f64();
    let total = table["total"]["packets_per_second"].as_f64().unwrap();
    assert!(
        (0.5..=2.0).contains(&(total / meanwhile)),
        "{total} of {meanwhile} a second: {table}"
    );
    let rows = rows(&table, "source");
    let share = |packets: f64| packets / total * sent_per_round;
    let wanted = [
        ("192.0.2.66", 40.0, 0.5..=1.0),
        ("198.18.0.9", 9.0, 0.0..=0.0),
    ];
    for (row, (source, packets, dropped)) in rows.iter().zip(wanted) {
        assert_eq!(row.0, source, "{table}");
        let found = share(row.1);
        assert!(
            (packets * 0.7..=packets * 1.3).contains(&found),
            "{found}: {table}"
        );
        assert!(dropped.contains(&row.2), "{table}");
    }
    assert_eq!(rows[2].0, "192.0.2.7", "{table}");
    assert_eq!(table["senders"][0]["port"], 53);
    assert_eq!(table["senders"][0]["reason"], Value::Null);

    // On a busy machine, no packet of the rarest group may come within a second.
    let mut tables = (0..9).map(|_| {
        let outcome = hosts.limiter("watch eth0 --by network,reason,limit --for 1s --rows 2");
        outcome.expect(0);
        outcome.stdout
    });
    let text = tables.find(|table| table.contains("others"));
    let text = text.expect("a row of the others");
    let rows: Vec<Vec<_>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[1][..3], ["NETWORK", "REASON", "LIMIT"], "{text}");
    assert_eq!(rows[2][..3], ["192.0.2.0/24", "limit", "network"], "{text}");
    assert_eq!(rows[3][..3], ["198.18.0.0/24", "unlimited", "-"], "{text}");
    assert_eq!((rows[4][0], rows.len()), ("others", 5), "{text}");
    drop(flood);
}

#[test]
fn sample_of_a_bounded_rate_is_not_the_beginning_of_a_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let round = ["192.0.2.66", "192.0.2.67"].map(|source| from(&hosts, source, 9));
    let flood = Flood::start(&hosts, round.to_vec(), Duration::from_millis(1));
    let arguments = ["--per-second", "20", "--for", "6s", "--json"];
    let ended = Watcher::start(&hosts, &arguments).wait();
    let sent = flood.end();
    assert_eq!(ended.status, 0, "{ended:#?}");
    let lines = ended.stdout.lines().map(serde_json::from_str);
    let events: Vec<Value> = lines.collect::<Result<_, _>>().unwrap();
    // Of the first second, the first 20; then a sample.
    assert!(
        (40..=160).contains(&events.len()),
        "{} of {sent}",
        events.len()
    );
    let of_first = events
        .iter()
        .filter(|event| event["source"] == "192.0.2.66");
    let of_first = of_first.count();
    assert!(
        of_first * 5 > events.len() && of_first * 5 < events.len() * 4,
        "{events:#?}"
    );
    // A sample is spread over each second. The first packets of a second follow each other.
    let time = |event: &Value| humantime::parse_rfc3339(event["time"].as_str().unwrap()).unwrap();
    let times: Vec<_> = events.iter().map(time).collect();
    let pauses = times.windows(2).skip(20);
    let mut pauses: Vec<_> = pauses
        .map(|pair| pair[1].duration_since(pair[0]).unwrap_or_default())
        .collect();
    pauses.sort_unstable();
    let usual = pauses[pauses.len() / 2];
    assert!(usual > Duration::from_millis(8), "{usual:?}: {pauses:?}");
    assert!(
        ended.stderr.contains("a sample of at most 20 per second"),
        "{ended:#?}"
    );
}

#[test]
fn log_runs_beside_watchers_of_passed_packets() {
    need_kernel!();
    need_program!("bpftool");
    let hosts = Hosts::new();
    hosts.attach_file(FILE);
    assert!(!looks_at_passed(&hosts));
    let traffic = Traffic::new(&hosts);
    let mut passed = Watcher::start(&hosts, &["--json", "--passed"]);
    let mut drops = Watcher::start(&hosts, &["--json"]);
    let mut log = Watcher::log(&hosts, &["--level", "trace"]);
    let mut later = Watcher::start(&hosts, &["--json", "--reason", "unlimited"]);
    traffic.send(&[
        &from(&hosts, "192.0.2.7", 80),
        &from(&hosts, "203.0.113.66", 80),
    ]);
    assert_eq!(log.event()["event"], "deny");
    assert_eq!(drops.event()["reason"], "deny");
    assert_eq!(
        [passed.event(), passed.event()].map(|event| event["verdict"].clone()),
        ["pass", "drop"]
    );
    assert_eq!(later.event()["source"], "192.0.2.7");
    log.end();
    traffic.send(&[&from(&hosts, "192.0.2.8", 80)]);
    assert_eq!(passed.event()["source"], "192.0.2.8", "after the log");
    assert_eq!(later.event()["source"], "192.0.2.8");
    for watcher in [passed, drops, later] {
        watcher.end();
    }
    eventually("the program is as before", || !looks_at_passed(&hosts));
}
