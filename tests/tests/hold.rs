//! A limit with `hold` refuses a source for that time after its first refused packet, and everybody else as before.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use limiter_common::policy::verdict::Reason;
use limiter_tests::{
    engine::Kernel,
    hosts::{CLIENT, Hosts, SERVER, on},
    need_kernel, number,
    packet::Frame,
    settings,
    traffic::Traffic,
};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000 * SECOND;
const MINUTES: u64 = 60 * SECOND;

fn from(source: &str) -> Vec<u8> {
    Frame::from(source.parse().unwrap()).bytes()
}

#[test]
fn refused_source_stays_refused_until_the_hold_ends() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        "[[limit]]\nname = \"one\"\nrate = \"1/s\"\nburst = 2\nhold = \"10m\"\n",
    ));
    let (first, other) = (from("192.0.2.1"), from("192.0.2.2"));
    let passes = |moment| kernel.passes(&first, START + moment);
    assert_eq!([passes(0), passes(1), passes(2)], [true, true, false]);
    // Without the hold, a packet would pass each second. Refused packets do not make the hold longer.
    for seconds in [1, 2, 60, 300, 599] {
        assert!(!passes(seconds * SECOND), "after {seconds} s");
    }
    // The packet was refused at 2 ns. Then the bucket is empty, and refills.
    let end = 10 * MINUTES + 2;
    assert!(!passes(end - 1) && passes(end + SECOND + 1));
    assert!(!passes(end + SECOND + 2), "its bucket has no other token");
    assert!(!passes(19 * MINUTES), "held again");
    let passes = |moment| kernel.passes(&other, START + moment);
    assert_eq!([passes(0), passes(0), passes(0)], [true, true, false]);
    assert!(!passes(10 * MINUTES), "there is no token yet");
    assert!(passes(10 * MINUTES + 2 * SECOND), "no packet passed before");
}

/// A source that keeps to the rate after a hold is never held again, although its packets meet an empty bucket.
#[test]
fn source_below_the_rate_leaves_a_hold() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        "[[limit]]\nname = \"one\"\nrate = \"1/m\"\nburst = 1\nhold = \"10m\"\n",
    ));
    let packet = from("192.0.2.1");
    let passes = |moment| kernel.passes(&packet, START + moment);
    assert_eq!([passes(0), passes(SECOND)], [true, false]);
    for minute in 1..100 {
        let passed = passes(minute * (MINUTES + SECOND));
        assert_eq!(passed, minute > 10, "after {minute} minutes");
    }
}

/// A long packet that costs more than the hold lasts gives nothing back, whatever the short ones cost.
#[test]
fn rates_in_bits_hold_too() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        "[[limit]]\nname = \"one\"\nrate = \"8kbit\"\nburst = \"2kb\"\nhold = \"100ms\"\n",
    ));
    let frame = |payload| {
        let frame = Frame::from("192.0.2.1".parse().unwrap());
        Frame { payload, ..frame }.bytes()
    };
    let (short, long) = (frame(58), frame(958));
    assert_eq!((short.len(), long.len()), (100, 1_000));
    let passes = |packet: &[u8], moment| kernel.passes(packet, START + moment);
    assert_eq!(
        [0, 1, 2].map(|moment| passes(&long, moment)),
        [true, true, false]
    );
    // A byte a millisecond. The bucket is empty for 100 ms, and has the bytes of a short packet after as much again.
    for milliseconds in [1, 50, 99] {
        assert!(!passes(&short, milliseconds * 1_000_000));
    }
    assert!(passes(&short, 200_000_100));
    assert!(!passes(&short, 200_000_200));
}

/// A limit in shadow refuses nothing, so it holds nothing. A held source meets only the limit that holds it.
#[test]
fn only_limits_that_refuse_hold_a_source() {
    need_kernel!();
    let kernel = Kernel::of(&settings(
        "[[limit]]\nname = \"shadow\"\nrate = \"1/s\"\nburst = 1\nhold = \"10m\"\nshadow = true\n\
         [[limit]]\nname = \"long\"\nmatch = { length = \"100-\" }\nrate = \"1/s\"\nburst = 2\nhold = \"10m\"\n",
    ));
    let short = from("192.0.2.1");
    let frame = Frame::from("192.0.2.1".parse().unwrap());
    let long = Frame {
        payload: 200,
        ..frame
    }
    .bytes();
    let reasons = |packet: &[u8], moment| kernel.offer(packet, START + moment);
    assert_eq!(reasons(&short, 0), Reason::Admitted);
    assert_eq!(reasons(&short, 1), Reason::WouldDrop);
    assert_eq!(reasons(&short, 2 * SECOND), Reason::Admitted, "not held");
    assert!(reasons(&long, 3 * SECOND).passes() && reasons(&long, 3 * SECOND + 1).passes());
    assert_eq!(reasons(&long, 3 * SECOND + 2), Reason::Limit);
    assert_eq!(reasons(&long, 60 * SECOND), Reason::Limit, "held");
    assert!(reasons(&short, 60 * SECOND).passes());
}

#[test]
fn held_sources_are_shown_and_reset_ends_the_hold() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"udp\"\nmatch = { protocol = \"udp\" }\nrate = \"10/s\"\n\
         burst = 3\nhold = \"10m\"\n",
    );
    let traffic = Traffic::new(&hosts);
    assert_eq!(traffic.passed("192.0.2.9", 10), 3);
    let status = hosts.status();
    assert_eq!(status["limits"][0]["held_sources"], 1);
    assert_eq!(status["limits"][0]["hold"], "10m");
    let shown = hosts.run("status eth0");
    assert!(shown.contains("holds for 10m: 1 held"), "{shown}");
    let checked = hosts.json(&["check", "eth0", "192.0.2.9", "--json"]);
    for key in ["held_seconds", "retry_after_seconds"] {
        let seconds = checked["limits"][0][key].as_f64().unwrap();
        assert!((590.0..=600.1).contains(&seconds), "{key}: {seconds}");
    }
    let top = hosts.json(&["top", "eth0", "--once", "--json"]);
    assert!(top["sources"][0]["held_seconds"].as_f64().unwrap() > 590.0);
    let shown = hosts.run("top eth0 --once");
    assert!(
        shown.contains("held 9m") || shown.contains("held 10m"),
        "{shown}"
    );
    // New settings keep the hold; without hold, it ends.
    hosts.run("set eth0 --rate 20/s");
    assert_eq!(traffic.passed("192.0.2.9", 5), 0);
    hosts.run("reset eth0 192.0.2.9");
    assert_eq!(traffic.passed("192.0.2.9", 3), 3);
    assert_eq!(hosts.status()["limits"][0]["held_sources"], 0);
    assert_eq!(number(&hosts.status()["drops"]["limit"]["packets"]), 12);
}

/// Packets of an open connection neither hold their source, nor are they refused while it is held.
#[test]
fn established_connections_go_on_and_hold_nobody() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.attach_file(
        "interfaces = [\"eth0\"]\nexempt = [\"established\"]\n[[limit]]\nname = \"all\"\nrate = \"1/m\"\nburst = 9\nhold = \"10m\"\n",
    );
    let listener = on(&hosts.server, || TcpListener::bind((SERVER, 0)).unwrap());
    let address = listener.local_addr().unwrap();
    let mut client = on(&hosts.client, || TcpStream::connect(address).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    // A connection that is limited is silent.
    server
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut talk = || {
        for _ in 0..100 {
            client.write_all(b"x").unwrap();
            server.read_exact(&mut [0]).unwrap();
        }
    };
    let (traffic, source) = (Traffic::new(&hosts), CLIENT.to_string());
    let tokens = || {
        let checked = hosts.json(&["check", "eth0", &source, "--json"]);
        checked["limits"][0]["tokens"].as_f64().unwrap()
    };
    while tokens() >= 1.0 {
        assert_eq!(traffic.passed(&source, 1), 1);
    }
    let held = || hosts.status()["limits"][0]["held_sources"].clone();
    // The bucket is empty, but no packet was refused.
    talk();
    assert_eq!(held(), 0);
    assert_eq!(traffic.passed(&source, 1), 0);
    assert_eq!(held(), 1);
    talk();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
    on(&hosts.client, connect).unwrap_err();
}
