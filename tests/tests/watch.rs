//! `watch` reports drops with their details within its budget, and counts the rest.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    mem::offset_of,
    process::Stdio,
    thread,
    time::{Duration, Instant, SystemTime},
};

use aya::maps::{Array, Map, MapData};
use limiter_common::abi::events::{EVENT_BURST, EVENT_COST, Switches};
use limiter_kernel::sys::clock;
use limiter_tests::{
    command::{ip, prepared},
    files::{Folder, at_driver},
    hosts::{Hosts, on},
    need_kernel, number,
    packet::{Segment, arp},
    traffic::{Traffic, ends, udp},
    watcher::Watcher,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Attaches a limit of one packet per hour. Two new sources are admitted.
const ONE: &str = "attach eth0 --rate 1/h --burst 1 --new-sources 1/h --new-sources-burst 2";
const SOURCE: &str = "192.0.2.7";

/// Two families: a source, a denied source, the destination, and the bytes by which headers are longer.
const FAMILIES: [(&str, &str, &str, u64); 2] = [
    (SOURCE, "203.0.113.66", "192.0.2.1", 0),
    (
        "2001:db8::7",
        "2001:db8:bad::7",
        "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd",
        20,
    ),
];

fn lost(hosts: &Hosts) -> u64 {
    number(&hosts.status()["events_lost"])
}

/// The next events must be these: all fields in the order of the documents, without time and interface.
fn expect(watcher: &mut Watcher, wanted: &[String]) {
    const KEYS: [&str; 10] = [
        "source",
        "source_port",
        "destination",
        "destination_port",
        "protocol",
        "tcp_flags",
        "length",
        "limit",
        "verdict",
        "reason",
    ];
    for wanted in wanted {
        let event = watcher.event();
        let fields = KEYS.map(|key| match &event[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        assert_eq!(fields.join(" "), *wanted);
        assert_eq!(event["interface"], "eth0");
    }
}

/// A UDP packet from `source` to a port.
fn from(hosts: &Hosts, source: &str, port: u16) -> Vec<u8> {
    udp(hosts, source.parse().unwrap(), port)
}

/// The beginning of a frame, up to the middle of its IP header.
fn cut(frame: &[u8]) -> &[u8] {
    &frame[..30]
}

#[test]
fn watch_reports_drops_of_one_limit() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let traffic = Traffic::new(&hosts);
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    let malformed =
        |verdict: &str| format!("null null null null null null 30 null {verdict} malformed");
    for (source, _, destination, extra) in FAMILIES {
        let frame = from(&hosts, source, 9);
        traffic.send(&[&frame, &frame, cut(&frame)]);
        let length = 60 + extra;
        let over = format!("{source} 40000 {destination} 9 udp null {length} default drop limit");
        expect(&mut watcher, &[over, malformed("drop")]);
    }
    let before = SystemTime::now() - Duration::from_micros(1);
    traffic.passed("192.0.2.8", 1);
    let event = watcher.event();
    assert_eq!(event["reason"], "new_source");
    let time = humantime::parse_rfc3339(event["time"].as_str().unwrap()).unwrap();
    assert!(before <= time && time <= SystemTime::now(), "{event}");

    hosts.run("set eth0 --shadow on");
    let frame = from(&hosts, "192.0.2.9", 9);
    traffic.send(&[&frame, cut(&frame)]);
    let new = "192.0.2.9 40000 192.0.2.1 9 udp null 60 default would_drop new_source";
    expect(&mut watcher, &[new.to_owned(), malformed("would_drop")]);
    let ended = watcher.end();
    assert_eq!((ended.sums(), &ended.stdout[..]), ((7, 0), ""));
    assert_eq!(lost(&hosts), 0);
}

#[test]
fn first_line_says_when_the_watch_ends_and_that_shadow_drops_nothing() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let traffic = Traffic::new(&hosts);
    let first_line = |line: &str| {
        let mut watch = prepared(line);
        watch.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut watch = on(&hosts.server, || watch.spawn()).unwrap();
        let mut text = String::new();
        let mut stderr = BufReader::new(watch.stderr.take().unwrap());
        stderr.read_line(&mut text).unwrap();
        let frame = from(&hosts, SOURCE, 9);
        traffic.send(&[&frame, &frame, &frame, &frame]);
        assert!(watch.wait().unwrap().success(), "{line}: {text}");
        text
    };
    for (line, text) in [
        (
            "watch eth0 -n 3",
            "eth0: drops are shown until there are 3, or until you press Ctrl-C",
        ),
        (
            "watch eth0 -n 1 --for 1m",
            "eth0: drops are shown for 1m, until there is 1, or until you press Ctrl-C",
        ),
        (
            "watch eth0 --for 1s",
            "eth0: drops are shown for 1s, or until you press Ctrl-C",
        ),
    ] {
        assert_eq!(first_line(line), format!("limiter: {text}\n"));
    }
    hosts.run("set eth0 --shadow on");
    assert_eq!(
        first_line("watch eth0 -n 2"),
        "limiter: eth0: SHADOW, nothing is dropped: packets that would be dropped are shown until there are 2, or until you press Ctrl-C\n"
    );
}

const SEVERAL: &str = r#"
interfaces = ["eth0"]
exempt = ["control"]

[lists]
deny = ["203.0.113.66", "2001:db8:bad::/48"]

[[limit]]
name = "web"
match = { protocol = "tcp", destination_port = 80 }
rate = "1/h"
burst = 1
shadow = true

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "1/h"
burst = 1

[[limit]]
name = "all"
rate = "10/h"
burst = 3
shadow = true
"#;

/// A segment to port 80 that opens a connection.
fn web(hosts: &Hosts, source: &str) -> Vec<u8> {
    ends(hosts, source.parse().unwrap(), 80).tcp(Segment::Syn)
}

#[test]
fn watch_reports_drops_of_several_limits_and_lists() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(SEVERAL);
    let traffic = Traffic::new(&hosts);
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    for (source, denied, destination, extra) in FAMILIES {
        traffic.passed_to(7, denied, 1);
        // The first packet passes. The second and the third packet are over one limit in shadow.
        let web = web(&hosts, source);
        traffic.send(&[&web, &web, &web]);
        // Both packets are over the limit in shadow. Another limit drops the second one.
        let dns = from(&hosts, source, 53);
        traffic.send(&[&dns, &dns]);
        // The port cannot be read, and may be the port of the limit, which has no tokens.
        traffic.send(&[&dns[..dns.len() - 18 - 5]]);
        let (long, syn, short) = (60 + extra, 54 + extra, 37 + extra);
        let web =
            format!("{source} 40000 {destination} 80 tcp [\"syn\"] {syn} web would_drop limit");
        let dns =
            |limit: &str| format!("{source} 40000 {destination} 53 udp null {long} {limit} limit");
        let wanted = [
            format!("{denied} 40000 {destination} 7 udp null {long} null drop deny"),
            web.clone(),
            web,
            dns("all would_drop"),
            dns("dns drop"),
            format!("{source} null {destination} null udp null {short} dns drop limit"),
        ];
        expect(&mut watcher, &wanted);
    }
    // The built-in limit on control traffic has a burst of 200.
    let mut asking = arp();
    asking[28..32].copy_from_slice(&[192, 0, 2, 9]);
    traffic.send(&vec![&asking[..]; 300]);
    let control = "192.0.2.9 null null null arp null 60 control drop limit";
    expect(&mut watcher, &[control.to_owned()]);
    watcher.end();
}

/// Filtered events take nothing of the budget, and are not counted as lost.
#[test]
fn watch_filter_finds_one_packet_in_a_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(SEVERAL);
    let traffic = Traffic::new(&hosts);
    let (dns, web) = (from(&hosts, "192.0.2.9", 53), web(&hosts, "192.0.2.9"));
    let dns6 = from(&hosts, "2001:db8:9::9", 53);
    // The limit on all packets is the second limit that the second of `web` exceeds.
    traffic.send(&[&dns, &web, &dns6, &web]);
    let flood = from(&hosts, "203.0.113.66", 53);
    for (filter, needle) in [
        ("--source 192.0.2.0/24", &dns[..]),
        ("--source 2001:db8:9::/48", &dns6),
        ("--limit web", &web),
        ("--limit all", &web),
        ("--reason malformed,new_source", cut(&dns)),
        (
            "--source 2001:db8::/32 --limit dns --reason limit,contended",
            &dns6,
        ),
    ] {
        let mut arguments: Vec<_> = filter.split(' ').collect();
        arguments.extend(["--json", "-n", "1"]);
        let mut watcher = Watcher::start(&hosts, &arguments);
        let mut frames = vec![&flood[..]; 2_000];
        frames.insert(1_000, needle);
        traffic.send(&frames);
        assert_eq!(watcher.event()["length"], needle.len(), "{filter}");
        let ended = watcher.wait();
        assert_eq!((ended.status, ended.sums()), (0, (1, 0)), "{filter}");
    }
    assert_eq!(lost(&hosts), 0);
}

/// Each CPU has a budget. Every drop is reported, or counted as lost.
#[test]
fn watch_reports_a_flood_within_its_budget() {
    need_kernel!();
    const FLOOD: u64 = 20_000;
    let hosts = Hosts::new();
    hosts.run(ONE);
    let begin = Instant::now();
    let watcher = Watcher::start(&hosts, &[]);
    // The test does not read the pipe meanwhile. The pipe has room for more lines than the burst.
    assert_eq!(Traffic::new(&hosts).passed(SOURCE, FLOOD + 1), 1);
    let milliseconds = begin.elapsed().as_nanos() as u64 / EVENT_COST + 1;
    watcher.signal(Signal::SIGINT);
    let ended = watcher.wait();
    let (shown, lost_of_it) = ended.sums();
    assert_eq!(ended.stdout.lines().count() as u64, shown);
    assert_eq!(shown + lost_of_it, FLOOD, "{}", ended.stderr);
    let cpus = thread::available_parallelism().unwrap().get() as u64;
    let most = cpus * (EVENT_BURST + milliseconds);
    assert!((EVENT_BURST..=most).contains(&shown), "{shown} of {most}");
    assert!(lost(&hosts) >= FLOOD.saturating_sub(most));
}

/// The first words of the program's watches: a bit for each watch, and the deadline of the first one.
fn switch(hosts: &Hosts) -> [u64; 2] {
    let switch = Map::Array(MapData::from_pin(hosts.pins().join("SWITCHES")).unwrap());
    let switch: Array<_, [u8; size_of::<Switches>()]> = switch.try_into().unwrap();
    let bytes = switch.get(&0, 0).unwrap();
    let active = offset_of!(Switches, watches.active);
    [active, active + 8]
        .map(|begin| u64::from_ne_bytes(bytes[begin..begin + 8].try_into().unwrap()))
}

#[test]
fn drops_are_not_reported_without_a_watcher() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let traffic = Traffic::new(&hosts);
    traffic.passed(SOURCE, 2_000);
    let ended = Watcher::start(&hosts, &[]).end();
    assert_eq!((ended.sums(), &ended.stdout[..]), ((0, 0), ""));
    assert_eq!(switch(&hosts), [0, 0], "the program still reports events");
    traffic.passed(SOURCE, 2_000);
    assert_eq!(lost(&hosts), 0);

    // Some of the events after a kill fill the ring buffer. The next watcher does not show them.
    let watcher = Watcher::start(&hosts, &["--json"]);
    watcher.signal(Signal::SIGKILL);
    assert_eq!(watcher.wait().status, -1);
    assert_eq!(switch(&hosts)[0], 1, "the watch has ended");
    traffic.passed(SOURCE, 2_000);
    let mut next = Watcher::start(&hosts, &["--json"]);
    traffic.passed_to(78, SOURCE, 1);
    assert_eq!(next.event()["destination_port"], 78, "of this watch");
    next.signal(Signal::SIGKILL);
    let _ = next.wait();

    // Without a process that renews it, the watch expires.
    let [_, left] = switch(&hosts);
    while clock::now().unwrap() <= left {
        thread::sleep(Duration::from_millis(50));
    }
    let before = lost(&hosts);
    traffic.passed(SOURCE, 2_000);
    assert_eq!((lost(&hosts), switch(&hosts)), (before, [0, 0]));
}

#[test]
fn watch_continues_through_changes() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let path = folder.write("limiter.toml", at_driver(SEVERAL));
    hosts.run(&format!("attach eth0 --config {path}"));
    let traffic = Traffic::new(&hosts);
    traffic.passed_to(53, SOURCE, 1);
    let mut all = Watcher::start(&hosts, &["--json"]);
    for rate in ["2/h", "3/h", "4/h"] {
        hosts.run(&format!("set eth0 --limit dns --rate {rate}"));
        traffic.passed_to(53, SOURCE, 1);
        assert_eq!(all.event()["limit"], "dns", "{rate}");
    }
    assert_eq!(all.end().sums(), (3, 0));

    let mut watcher = Watcher::start(&hosts, &["--json", "--limit", "dns", "-n", "1"]);
    // The limit gets another key, and so another slot, and another limit before it.
    let changed = SEVERAL
        .replace("name = \"dns\"", "name = \"dns\"\nkey = \"/24,/48\"")
        .replacen(
            "[[limit]]",
            "[[limit]]\nname = \"first\"\nrate = \"1M/s\"\n[[limit]]",
            1,
        );
    fs::write(&path, at_driver(changed)).unwrap();
    hosts.run("reload eth0");
    // The watcher checks for changes twice a second.
    let since = Instant::now();
    while !watcher.has_ended() {
        let waited = since.elapsed();
        assert!(waited < Duration::from_secs(30), "the watcher does not end");
        traffic.passed_to(53, SOURCE, 1);
    }
    let event = watcher.event();
    let found = (&event["limit"], &event["source"]);
    assert_eq!(found, (&json!("dns"), &json!(SOURCE)));
}

#[test]
fn wrong_filters_are_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    let refused = |arguments: &str, status, words: &[&str]| {
        let watch = hosts.limiter(&format!("watch {arguments}"));
        watch.expect_error(status, words);
    };
    refused("eth0", 1, &["not attached to 'eth0'"]);
    hosts.run(ONE);
    let unknown = ["eth0: there is no limit 'dns'", "default"];
    refused("eth0 --limit dns", 1, &unknown);
    refused("eth0 --reason luck", 2, &["luck", "new_source"]);
    refused("eth0 --source 192.0.2.7/24", 2, &["192.0.2.7/24"]);
    refused("eth0 --by luck", 2, &["luck", "network"]);
    refused("eth0 --by source -n 3", 2, &["--count"]);
}

#[test]
fn watch_ends_with_the_attachment() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let ended = |watcher: Watcher, words: &str| {
        let ended = watcher.wait();
        assert!(
            ended.status == 1 && ended.stderr.contains(words),
            "{ended:#?}"
        );
    };
    let watcher = Watcher::start(&hosts, &[]);
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists(), "pins are left");
    ended(watcher, "limiter was detached from 'eth0'");

    // `attach` runs again before the watcher checks.
    hosts.run(ONE);
    let watcher = Watcher::start(&hosts, &[]);
    watcher.signal(Signal::SIGSTOP);
    hosts.run("detach eth0");
    hosts.run(ONE);
    let other = Watcher::start(&hosts, &[]);
    watcher.signal(Signal::SIGCONT);
    ended(watcher, "was detached");
    assert_ne!(switch(&hosts)[0], 0, "the second watcher has ended");
    ip(&hosts.server.namespace, "link delete eth0");
    ended(other, "the interface is gone");
    hosts.run("detach eth0");
}

#[test]
fn watch_ends_successfully_on_a_closed_pipe() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    for drops in [0, 2_000] {
        let mut watcher = Watcher::start(&hosts, &[]);
        watcher.close();
        Traffic::new(&hosts).passed(SOURCE, drops);
        assert_eq!(watcher.wait().status, 0);
        assert_eq!(switch(&hosts)[0], 0, "the program still reports events");
    }
}
