//! `watch` reports drops with their details within its budget, and counts the rest.

use std::{
    fs,
    net::IpAddr,
    thread,
    time::{Duration, Instant, SystemTime},
};

use aya::maps::{Array, Map, MapData};
use etherparse::PacketBuilder;
use limiter_common::{
    abi::events::{EVENT_BURST, EVENT_COST},
    arithmetic::bucket::{BUSY, is_time},
    table::entry::TAT,
};
use limiter_tests::{
    command::ip, eventually, files::Folder, hosts::Hosts, need_kernel, number, packet::arp,
    raw::Raw, traffic::udp, watcher::Watcher,
};
use limiter_user::kernel::{program::raw, sys::clock};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Attaches a limit of one packet per hour. Two new sources are admitted.
const ONE: &str = "attach eth0 --rate 1/h --burst 1 --new-sources 1/h --new-sources-burst 2";

/// Sends frames to the server, and waits until limiter has counted them.
struct Wires<'h> {
    hosts: &'h Hosts,
    wire: Raw,
}

impl<'h> Wires<'h> {
    fn new(hosts: &'h Hosts) -> Self {
        Self {
            hosts,
            wire: Raw::open(&hosts.client),
        }
    }

    fn packets(&self, verdict: &str) -> u64 {
        number(&self.hosts.status()[verdict]["packets"])
    }

    fn send(&self, frames: &[&[u8]]) {
        let before = self.packets("seen");
        frames.iter().for_each(|frame| self.wire.send(frame));
        eventually("limiter has counted all frames", || {
            self.packets("seen") == before + frames.len() as u64
        });
    }

    fn from(&self, source: &str, port: u16) -> Vec<u8> {
        udp(self.hosts, source.parse().unwrap(), port)
    }

    /// Sends `count` packets from one source to a port.
    fn flood(&self, source: &str, port: u16, count: usize) {
        self.send(&vec![&self.from(source, port)[..]; count]);
    }
}

fn lost(hosts: &Hosts) -> u64 {
    number(&hosts.status()["events_lost"])
}

/// Removes the time of an event.
fn timeless(mut event: Value) -> Value {
    event.as_object_mut().unwrap().remove("time").unwrap();
    event
}

/// The expected event without its time. `packet`: protocol, port and length. `why`: limit ("-" for none), verdict and
/// reason.
fn wanted(source: Option<&str>, packet: (&str, u16, usize), why: &str) -> Value {
    let (protocol, port, length) = packet;
    let has_ports = port != 0;
    let [limit, verdict, reason] = why.split(' ').collect::<Vec<_>>().try_into().unwrap();
    json!({
        "interface": "eth0",
        "source": source,
        "source_port": has_ports.then_some(40_000),
        "destination": source.filter(|_| protocol != "arp").map(server_of),
        "destination_port": has_ports.then_some(port),
        "protocol": Some(protocol).filter(|protocol| !protocol.is_empty()),
        "tcp_flags": (protocol == "tcp").then_some(["syn"]),
        "length": length, "limit": Some(limit).filter(|limit| *limit != "-"),
        "verdict": verdict, "reason": reason,
    })
}

/// Destination address for packets from a source.
fn server_of(source: &str) -> IpAddr {
    match source.parse().unwrap() {
        IpAddr::V4(_) => [192, 0, 2, 1].into(),
        IpAddr::V6(_) => [0xfd; 16].into(),
    }
}

/// Truncates a frame in the middle of its IP header.
fn cut(mut frame: Vec<u8>) -> Vec<u8> {
    frame.truncate(30);
    frame
}

#[test]
fn watch_reports_drops_of_one_limit() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let wires = Wires::new(&hosts);
    let before = SystemTime::now() - Duration::from_micros(1);
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    for (source, length) in [("192.0.2.7", 60), ("2001:db8::7", 80)] {
        let frame = wires.from(source, 9);
        assert_eq!(frame.len(), length);
        wires.send(&[&frame, &frame, &cut(frame.clone())]);
        let event = watcher.event();
        let time = humantime::parse_rfc3339(event["time"].as_str().unwrap()).unwrap();
        assert!(before <= time && time <= SystemTime::now(), "{event}");
        let over = wanted(Some(source), ("udp", 9, length), "default drop limit");
        assert_eq!(timeless(event), over);
        let malformed = wanted(None, ("", 0, 30), "- drop malformed");
        assert_eq!(timeless(watcher.event()), malformed);
    }
    for (source, length) in [("192.0.2.8", 60), ("2001:db8:1::7", 80)] {
        wires.flood(source, 53, 1);
        let new = wanted(Some(source), ("udp", 53, length), "default drop new_source");
        assert_eq!(timeless(watcher.event()), new);
    }
    block_all_entries(&hosts);
    wires.flood("192.0.2.7", 9, 1);
    let contended = wanted(Some("192.0.2.7"), ("udp", 9, 60), "default drop contended");
    assert_eq!(timeless(watcher.event()), contended);

    hosts.run("set eth0 --shadow on");
    let frame = wires.from("192.0.2.9", 9);
    wires.send(&[&frame, &cut(frame.clone())]);
    let new = wanted(
        Some("192.0.2.9"),
        ("udp", 9, 60),
        "default would_drop new_source",
    );
    assert_eq!(timeless(watcher.event()), new);
    let malformed = wanted(None, ("", 0, 30), "- would_drop malformed");
    assert_eq!(timeless(watcher.event()), malformed);
    let ended = watcher.end();
    assert_eq!(
        (ended.sums(), &ended.stdout[..]),
        ((9, 0), ""),
        "{ended:#?}"
    );
    assert_eq!(lost(&hosts), 0);
}

/// Marks all entries as in use, as if a CPU was stopped while it works on them.
fn block_all_entries(hosts: &Hosts) {
    let sets = Map::Array(MapData::from_pin(hosts.pins().join("SETS")).unwrap());
    let mut sets: Array<_, raw::Raw<limiter_common::abi::Set>> = sets.try_into().unwrap();
    let mut blocked = 0;
    for index in 0..sets.len() {
        let raw::Raw(mut set) = sets.get(&index, 0).unwrap();
        for entry in &mut set.entries {
            if is_time(entry.words[TAT]) {
                entry.words[TAT] = BUSY;
                blocked += 1;
                sets.set(index, raw::Raw(set), 0).unwrap();
                break;
            }
        }
    }
    assert_eq!(blocked, 2, "both entries are blocked");
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

fn tcp(hosts: &Hosts, source: &str, port: u16) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2(hosts.client.mac, hosts.server.mac);
    let ip = match source.parse().unwrap() {
        IpAddr::V4(source) => ethernet.ipv4(source.octets(), [192, 0, 2, 1], 64),
        IpAddr::V6(source) => ethernet.ipv6(source.octets(), [0xfd; 16], 64),
    };
    let mut bytes = Vec::new();
    ip.tcp(40_000, port, 1, 1_024)
        .syn()
        .write(&mut bytes, &[0; 6])
        .unwrap();
    bytes
}

#[test]
fn watch_reports_drops_of_several_limits_and_lists() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(SEVERAL);
    let wires = Wires::new(&hosts);
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    let mut expect = |source, packet, why| {
        assert_eq!(timeless(watcher.event()), wanted(Some(source), packet, why));
    };
    for (source, denied, extra) in [
        ("192.0.2.7", "203.0.113.66", 0),
        ("2001:db8::7", "2001:db8:bad::7", 20),
    ] {
        wires.flood(denied, 7, 1);
        expect(denied, ("udp", 7, 60 + extra), "- drop deny");
        let web = tcp(&hosts, source, 80);
        assert_eq!(web.len(), 60 + extra);
        // The first packet passes. The second and the third packet are over one limit in shadow.
        wires.send(&[&web, &web, &web]);
        for _ in 0..2 {
            expect(source, ("tcp", 80, 60 + extra), "web would_drop limit");
        }
        // Both packets are over the limit in shadow. Another limit drops the second one.
        let dns = wires.from(source, 53);
        wires.send(&[&dns, &dns]);
        expect(source, ("udp", 53, 60 + extra), "all would_drop limit");
        expect(source, ("udp", 53, 60 + extra), "dns drop limit");
        // The port cannot be read, and may be the port of the limit, which has no tokens.
        let mut short = dns.clone();
        short.truncate(dns.len() - 18 - 5);
        wires.send(&[&short]);
        expect(source, ("udp", 0, 37 + extra), "dns drop limit");
    }
    // The built-in limit on control traffic has a burst of 200.
    let mut asking = arp();
    asking[28..32].copy_from_slice(&[192, 0, 2, 9]);
    wires.send(&vec![&asking[..]; 300]);
    expect("192.0.2.9", ("arp", 0, 60), "control drop limit");
    watcher.end();
}

/// Filtered events take nothing of the budget, and are not counted as lost.
#[test]
fn watch_filter_finds_one_packet_in_a_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(SEVERAL);
    let wires = Wires::new(&hosts);
    let (dns, web) = (wires.from("192.0.2.9", 53), tcp(&hosts, "192.0.2.9", 80));
    let (dns6, cut) = (wires.from("2001:db8:9::9", 53), cut(dns.clone()));
    wires.send(&[&dns, &web, &dns6]);
    // The limit on all packets is the second limit that this packet exceeds.
    wires.send(&[&web]);
    let flood = wires.from("203.0.113.66", 53);
    for (filter, needle) in [
        (&["--source", "192.0.2.0/24"][..], &dns),
        (&["--source", "192.0.2.9"], &dns),
        (&["--source", "2001:db8:9::/48"], &dns6),
        (&["--limit", "dns"], &dns),
        (&["--limit", "web"], &web),
        (&["--limit", "all"], &web),
        (&["--reason", "limit"], &dns6),
        (&["--reason", "malformed,new_source"], &cut),
        (
            &[
                "--source",
                "2001:db8::/32",
                "--limit",
                "dns",
                "--reason",
                "limit,contended",
            ],
            &dns6,
        ),
    ] {
        let mut arguments = filter.to_vec();
        arguments.extend(["--json", "-n", "1"]);
        let mut watcher = Watcher::start(&hosts, &arguments);
        let mut frames = vec![&flood[..]; 2_000];
        frames.insert(1_000, needle);
        wires.send(&frames);
        let event = watcher.event();
        assert_eq!(
            number(&event["length"]),
            needle.len() as u64,
            "{filter:?}: {event}"
        );
        if let ["--limit", limit] = filter {
            assert_eq!(event["limit"], *limit);
        }
        let ended = watcher.wait();
        assert_eq!(
            (ended.status, ended.sums()),
            (0, (1, 0)),
            "{filter:?}: {ended:#?}"
        );
    }
    // Filters also exclude a flood.
    for filter in [
        ["--source", "203.0.113.65"],
        ["--source", "2001:db8::/32"],
        ["--limit", "dns"],
        ["--reason", "limit"],
    ] {
        let watcher = Watcher::start(&hosts, &filter);
        wires.flood("203.0.113.66", 53, 2_000);
        assert_eq!(watcher.end().sums(), (0, 0), "{filter:?}");
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
    let wires = Wires::new(&hosts);
    let begin = Instant::now();
    let watcher = Watcher::start(&hosts, &[]);
    // The test does not read the pipe meanwhile. The pipe has room for more lines than the burst.
    wires.flood("192.0.2.7", 9, FLOOD as usize + 1);
    let milliseconds = begin.elapsed().as_nanos() as u64 / EVENT_COST + 1;
    let dropped = wires.packets("dropped");
    assert_eq!(dropped, FLOOD);
    watcher.signal(Signal::SIGINT);
    let ended = watcher.wait();
    let (shown, lost_of_it) = ended.sums();
    assert_eq!(ended.stdout.lines().count() as u64, shown);
    assert_eq!(shown + lost_of_it, dropped, "{}", ended.stderr);
    let cpus = thread::available_parallelism().unwrap().get() as u64;
    let most = cpus * (EVENT_BURST + milliseconds);
    let least = EVENT_BURST.min(FLOOD);
    assert!(shown >= least, "{shown} of {least}");
    assert!(shown <= most, "{shown} of {most} within {milliseconds} ms");
    assert!(lost(&hosts) >= FLOOD.saturating_sub(most));
}

#[test]
fn drops_are_not_reported_without_a_watcher() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let wires = Wires::new(&hosts);
    wires.flood("192.0.2.7", 9, 2_000);
    assert_eq!(lost(&hosts), 0);
    for _ in 0..2 {
        let watcher = Watcher::start(&hosts, &[]);
        let ended = watcher.end();
        assert_eq!((ended.sums(), &ended.stdout[..]), ((0, 0), ""));
        assert_eq!(until(&hosts), 0, "the program still reports events");
        wires.flood("192.0.2.7", 9, 2_000);
        assert_eq!(lost(&hosts), 0);
    }
    // Drops during the previous watch are not reported to the next watcher.
    let mut watcher = Watcher::start(&hosts, &["-n", "1", "--json"]);
    wires.flood("192.0.2.7", 77, 1);
    assert_eq!(watcher.event()["destination_port"], 77);
    assert_eq!(watcher.wait().sums(), (1, 0));
}

/// The deadline of the watch in the program's map.
fn until(hosts: &Hosts) -> u64 {
    const BYTES: usize = size_of::<limiter_common::abi::events::Watch>();
    let switch = Map::Array(MapData::from_pin(hosts.pins().join("WATCH")).unwrap());
    let switch: Array<_, [u8; BYTES]> = switch.try_into().unwrap();
    let bytes = switch.get(&0, 0).unwrap();
    u64::from_ne_bytes(bytes[..8].try_into().unwrap())
}

#[test]
fn killed_watcher_leaves_nothing_that_lasts() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let wires = Wires::new(&hosts);
    let watcher = Watcher::start(&hosts, &["--json"]);
    watcher.signal(Signal::SIGKILL);
    assert_eq!(watcher.wait().status, -1);
    // Some of these events fill the ring buffer, and no process reads them.
    let left = until(&hosts);
    assert!(left > 0, "the watch has ended");
    wires.flood("192.0.2.7", 9, 2_000);
    let mut next = Watcher::start(&hosts, &["--json"]);
    wires.flood("192.0.2.7", 78, 1);
    assert_eq!(next.event()["destination_port"], 78, "of this watch");
    next.signal(Signal::SIGKILL);
    let _ = next.wait();

    let left = until(&hosts);
    while clock::now().unwrap() <= left {
        thread::sleep(Duration::from_millis(50));
    }
    let before = lost(&hosts);
    wires.flood("192.0.2.7", 9, 2_000);
    assert_eq!(lost(&hosts), before, "the watch has expired");
    assert_eq!(until(&hosts), 0, "the program still reports events");
    let mut watcher = Watcher::start(&hosts, &["--json", "--count", "1"]);
    wires.flood("192.0.2.7", 79, 1);
    assert_eq!(watcher.event()["destination_port"], 79);
}

#[test]
fn watch_continues_through_changes() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let path = folder.write("limiter.toml", SEVERAL);
    hosts.run(&format!("attach eth0 --config {path}"));
    let wires = Wires::new(&hosts);
    wires.flood("192.0.2.7", 53, 1);
    let mut all = Watcher::start(&hosts, &["--json"]);
    let limits = |watcher: &mut Watcher| watcher.event()["limit"].clone();
    wires.flood("192.0.2.7", 53, 1);
    assert_eq!(limits(&mut all), "dns");
    for rate in ["2/h", "3/h", "4/h"] {
        hosts.run(&format!("set eth0 --limit dns --rate {rate}"));
        wires.flood("192.0.2.7", 53, 1);
        assert_eq!(limits(&mut all), "dns", "{rate}");
    }
    assert_eq!(all.end().sums(), (4, 0));

    let mut one = Watcher::start(&hosts, &["--json", "--limit", "dns", "-n", "1"]);
    // The limit gets another key, and so another slot, and another limit before it.
    let changed = SEVERAL
        .replace("name = \"dns\"", "name = \"dns\"\nkey = \"/24,/48\"")
        .replacen(
            "[[limit]]",
            "[[limit]]\nname = \"first\"\nrate = \"1M/s\"\n[[limit]]",
            1,
        );
    fs::write(&path, changed).unwrap();
    hosts.run("reload eth0");
    // The watcher checks for changes twice a second.
    let since = Instant::now();
    while !one.has_ended() {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "the watcher does not end"
        );
        wires.flood("192.0.2.7", 53, 1);
    }
    let event = one.event();
    assert_eq!(
        (&event["limit"], &event["source"]),
        (&json!("dns"), &json!("192.0.2.7"))
    );
}

#[test]
fn second_watcher_is_refused() {
    need_kernel!();
    let hosts = Hosts::new();
    let refused = |arguments: &str, status, words: &[&str]| {
        hosts
            .limiter(&format!("watch {arguments}"))
            .expect_error(status, words);
    };
    refused("eth0", 1, &["not attached to 'eth0'"]);
    refused("eth9", 1, &["no interface 'eth9'"]);
    hosts.run(ONE);
    let unknown = ["eth0: there is no limit 'dns'", "default"];
    refused("eth0 --limit dns", 1, &unknown);
    refused("eth0 --reason luck", 2, &["luck", "new_source"]);
    refused("eth0 --source 192.0.2.7/24", 2, &["192.0.2.7/24"]);
    let watcher = Watcher::start(&hosts, &[]);
    let refused = Watcher::spawn(&hosts, &[]).wait();
    assert_eq!(refused.status, 1, "{refused:#?}");
    let process = format!("process {} watches 'eth0' already", watcher.id());
    assert!(refused.stderr.contains(&process), "{refused:#?}");
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:#?}");
    // Other commands still work.
    assert_eq!(number(&hosts.status()["events_lost"]), 0);
    hosts.run("set eth0 --rate 2/h");
    watcher.end();
    Watcher::start(&hosts, &[]).end();
}

#[test]
fn watch_ends_with_the_attachment() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    let watcher = Watcher::start(&hosts, &[]);
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists(), "pins are left");
    let ended = watcher.wait();
    assert_eq!(ended.status, 1, "{ended:#?}");
    assert!(
        ended.stderr.contains("limiter was detached from 'eth0'"),
        "{ended:#?}"
    );
    assert_eq!(ended.sums(), (0, 0));

    // `attach` runs again before the watcher checks.
    hosts.run(ONE);
    let watcher = Watcher::start(&hosts, &[]);
    watcher.signal(Signal::SIGSTOP);
    hosts.run("detach eth0");
    hosts.run(ONE);
    let other = Watcher::start(&hosts, &[]);
    watcher.signal(Signal::SIGCONT);
    let ended = watcher.wait();
    assert_eq!(ended.status, 1, "{ended:#?}");
    assert!(ended.stderr.contains("was detached"), "{ended:#?}");
    assert!(until(&hosts) > 0, "the second watcher has ended");

    ip(&hosts.server.namespace, "link delete eth0");
    let ended = other.wait();
    assert_eq!(ended.status, 1, "{ended:#?}");
    assert!(ended.stderr.contains("the interface is gone"), "{ended:#?}");
    hosts.run("detach eth0");
}

/// After the trial, the names of limits are those from before it. If nothing is limited then, the watch ends.
#[test]
fn watch_follows_the_end_of_a_trial() {
    need_kernel!();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let named = |name: &str| format!("[[limit]]\nname = \"{name}\"\nrate = \"1/h\"\nburst = 1\n");
    let (before, tried) = (
        folder.write("before.toml", named("before")),
        folder.write("tried.toml", named("tried")),
    );
    hosts.run(&format!("attach eth0 --config {before}"));
    hosts.run(&format!("reload eth0 --config {tried} --try 10s"));
    let mut watcher = Watcher::start(&hosts, &["--json"]);
    let _ = limiter_tests::trials::passed(&hosts);
    assert_eq!(watcher.event()["limit"], "tried");
    limiter_tests::trials::wait_for_the_end(&hosts);
    thread::sleep(Duration::from_secs(1));
    // Events of the trial come first.
    let _ = limiter_tests::trials::passed(&hosts);
    while watcher.event()["limit"] != "before" {}
    drop(watcher);
    hosts.run("detach eth0");

    limiter_tests::trials::attach(&hosts, "8s");
    let watcher = Watcher::start(&hosts, &[]);
    let ended = watcher.wait();
    assert_eq!(ended.status, 1, "{ended:#?}");
    assert!(ended.stderr.contains("nothing is limited"), "{ended:#?}");
}

#[test]
fn watch_ends_successfully_on_a_closed_pipe() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run(ONE);
    for drops in [0, 2_000] {
        let mut watcher = Watcher::start(&hosts, &[]);
        watcher.close();
        let wires = Wires::new(&hosts);
        wires.flood("192.0.2.7", 9, drops);
        let ended = watcher.wait();
        assert_eq!(ended.status, 0, "{ended:#?}");
        assert_eq!(until(&hosts), 0, "the program still reports events");
    }
}
