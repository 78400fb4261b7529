//! Changes under traffic leave no gap, reset no bucket, give no new burst, and lock no source out.

use std::{
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    effort::repetitions,
    eventually,
    hosts::{CLIENT, Hosts},
    need_kernel,
    raw::Raw,
    traffic::Flood,
};

/// Starts a flood of the client, without pauses.
fn flood(hosts: &Hosts) -> Flood {
    Flood::start(hosts, vec![hosts.frame(CLIENT).bytes()], Duration::ZERO)
}

/// Ends a flood, and waits until its packets are counted. Returns their number.
fn end(flood: Flood) -> u64 {
    let sent = flood.end();
    thread::sleep(Duration::from_millis(100));
    sent
}

/// Many programs are swapped in. A packet that met no program, or a lost bucket, would show.
#[test]
fn changes_under_flood_keep_an_empty_bucket_empty() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 3");
    let flood = flood(&hosts);
    eventually("the flood has begun", || flood.sent() >= 1_000);
    for i in 0..repetitions(30, 100) {
        let rate = ["1/h", "2/h", "1/d"][i % 3];
        hosts.limiter(&["set", "eth0", "--rate", rate]).expect(0);
    }
    let sent = end(flood);
    let status = hosts.status();
    assert_eq!(status["passed"]["packets"], 3, "{status}");
    assert_eq!(
        status["seen"]["packets"], sent,
        "every sent packet is counted"
    );
    assert_eq!(status["sources"]["added"], 1, "{status}");
    assert!(sent > 10_000, "too few packets were sent: {sent}");
}

/// Packets that the old program admits while the new one is loaded are charged.
#[test]
fn changes_under_flood_create_no_tokens() {
    need_kernel!();
    let hosts = Hosts::new();
    let start = Instant::now();
    hosts.run("attach eth0 --rate 10k/s --burst 10000");
    let flood = flood(&hosts);
    for i in 0..20 {
        let burst = ["10001", "10000"][i % 2];
        hosts.limiter(&["set", "eth0", "--burst", burst]).expect(0);
    }
    end(flood);
    let passed = hosts.status()["passed"]["packets"].as_f64().unwrap();
    // Half of the changes raise the burst by one token.
    let most = 10_000.0 + 10.0 + 10_000.0 * start.elapsed().as_secs_f64();
    assert!(passed <= most, "{passed} > {most}");
    assert!(passed > 10_000.0, "the flood met the limit: {passed}");
}

/// The number of spent tokens stays the same.
#[test]
fn bucket_keeps_its_tokens_when_the_rate_changes() {
    need_kernel!();
    let hosts = Hosts::new();
    hosts.run("attach eth0 --rate 1/h --burst 10");
    let wire = Raw::open(&hosts.client);
    let frame = hosts.frame(CLIENT).bytes();
    (0..7).for_each(|_| wire.send(&frame));
    thread::sleep(Duration::from_millis(100));
    let tokens = || {
        let check = hosts.json("check eth0 192.0.2.2 --json");
        check["limits"][0]["tokens"].as_f64().unwrap()
    };
    assert!((3.0..3.1).contains(&tokens()));
    for (change, left) in [
        (&["--rate", "1/d"][..], 3.0),
        (&["--rate", "2/h"], 3.0),
        (&["--burst", "12"], 5.0),
        (&["--burst", "8"], 1.0),
        (&["--burst", "4"], 0.0),
        (&["--burst", "10"], 6.0),
    ] {
        hosts
            .limiter(&[&["set", "eth0"], change].concat())
            .expect(0);
        let found = tokens();
        // A lower burst caps the missing tokens. When the burst is raised again, the bucket was only empty, and has 4
        // tokens.
        assert!(
            (found - left).abs() < 0.1,
            "{change:?}: {found} tokens, {left} wanted"
        );
    }
    (0..10).for_each(|_| wire.send(&frame));
    thread::sleep(Duration::from_millis(100));
    assert_eq!(hosts.status()["passed"]["packets"], 13, "7 before, 6 now");
}
