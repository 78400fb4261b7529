//! The receiver's count, `status` and burst + rate × time agree on floods between real hosts, within two tokens.

use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    hosts::{CLIENT, Hosts},
    need_kernel, number,
    packet::{Frame, TAGS},
    raw::Raw,
    traffic::Flood,
};

const SILENCE: Duration = Duration::from_millis(200);

/// Calls `send` `count` times, evenly spaced over about `duration`. Returns the actual duration.
fn paced(count: u32, duration: Duration, mut send: impl FnMut(u32)) -> Duration {
    let start = Instant::now();
    for i in 0..count {
        let due = duration * i / count;
        thread::sleep(due.saturating_sub(start.elapsed()));
        send(i);
    }
    start.elapsed()
}

/// Panics unless `passed` is burst + rate × time, within one token at the beginning and one at the end.
fn agrees(situation: &str, passed: f64, (burst, per_second): (f64, f64), time: Duration) {
    let allowed = burst + per_second * time.as_secs_f64();
    let difference = passed - allowed;
    assert!(
        (-2.0..=1.0).contains(&difference),
        "{situation}: {passed} passed, and {allowed} are allowed"
    );
}

/// Panics unless `status` agrees with the packets sent and received.
fn status_agrees(situation: &str, hosts: &Hosts, sent: u64, received: u64) {
    let status = hosts.status();
    let dropped = sent - received;
    for (path, wanted) in [
        ("/seen/packets", sent),
        ("/passed/packets", received),
        ("/dropped/packets", dropped),
        ("/drops/limit/packets", dropped),
        ("/limits/0/passed/packets", received),
    ] {
        let found = status.pointer(path).map(number);
        assert_eq!(found, Some(wanted), "{situation}, {path}: {status}");
    }
}

#[test]
fn flood_of_both_ip_versions_is_limited_with_and_without_vlan_tags() {
    need_kernel!();
    for source in ["192.0.2.2", "2001:db8::2"] {
        for tags in TAGS {
            let hosts = Hosts::new();
            hosts.run("attach eth0 --rate 40/s --burst 10");
            let (from, receiver) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
            let source: IpAddr = source.parse().unwrap();
            let frame = Frame {
                tags,
                ..hosts.frame(source)
            }
            .bytes();

            let time = paced(1_000, Duration::from_secs(1), |_| from.send(&frame));
            let received = receiver.receive(SILENCE).len() as u64;
            let situation = format!("{source} {tags:?}");
            agrees(&situation, received as f64, (10.0, 40.0), time);
            status_agrees(&situation, &hosts, 1_000, received);
        }
    }
}

#[test]
fn bit_rate_counts_the_bytes_of_whole_frames() {
    need_kernel!();
    let hosts = Hosts::new();
    // The rate is 100,000 bytes per second.
    hosts.run("attach eth0 --rate 800kbit --burst 20000b");
    let (from, receiver) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
    let frames = [0, 400, 1_400].map(|payload| {
        let frame = hosts.frame(CLIENT);
        Frame { payload, ..frame }.bytes()
    });

    let time = paced(3_000, Duration::from_secs(1), |i| {
        from.send(&frames[i as usize % 3])
    });
    let received: usize = receiver.receive(SILENCE).iter().map(Vec::len).sum();
    let longest = frames[2].len() as f64;
    let bounds = (20_000.0 / longest, 100_000.0 / longest);
    agrees("longest frames", received as f64 / longest, bounds, time);
    assert_eq!(number(&hosts.status()["passed"]["bytes"]), received as u64);
}

#[test]
fn seen_equals_passed_plus_dropped_under_flood() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1k/s --burst 10");
    let frame = hosts.frame(CLIENT).bytes();
    let flood = Flood::start(&hosts, vec![frame], Duration::ZERO);
    let mut last = 0;
    for _ in 0..50 {
        let status = hosts.status();
        for unit in ["packets", "bytes"] {
            let count = |verdict: &str| number(&status[verdict][unit]);
            assert_eq!(
                count("seen"),
                count("passed") + count("dropped"),
                "{status}"
            );
        }
        let drops = status["drops"].as_object().unwrap().values();
        let drops: u64 = drops.map(|count| number(&count["packets"])).sum();
        assert_eq!(number(&status["dropped"]["packets"]), drops, "{status}");
        let seen = number(&status["seen"]["packets"]);
        assert!(seen >= last, "counters only grow");
        last = seen;
    }
    let sent = flood.end();
    thread::sleep(SILENCE);
    assert_eq!(
        number(&hosts.status()["seen"]["packets"]),
        sent,
        "every packet was seen"
    );
    assert!(sent > 10_000, "too few packets were sent: {sent}");
}
