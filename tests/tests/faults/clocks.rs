//! Changed and differing clocks do not affect limits, because the program uses only the kernel's monotonic clock.

use std::{net::IpAddr, process::Command};

use limiter_tests::{
    command::{Outcome, binary},
    engine::{Kernel, Limit},
    need_kernel,
    packet::Frame,
};

use crate::case::{ABSENT, BY_OLD, Case, Place};

/// Runs `limiter` in a time namespace. Its monotonic clock is `ahead` of the kernel's.
fn in_time_namespace(place: &Place, ahead: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("unshare");
    command
        .args(["--time", "--fork", "--monotonic", ahead])
        .arg(binary())
        .args(arguments);
    let output = place.hosts.server.namespace.run(|| command.output());
    Outcome::of(format!("{ahead}: {arguments:?}"), output.unwrap().unwrap())
}

/// Containers may have a clock of their own.
#[test]
fn limiter_works_from_a_time_namespace() {
    need_kernel!();
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    let back = format!("-{}", seconds as u64 / 2);
    for ahead in ["86400", &back] {
        let place = Place::new();
        let case = Case::new(&place, &[], ABSENT, BY_OLD);
        let limiter = |arguments: &[&str]| in_time_namespace(&place, ahead, arguments);
        limiter(&["attach", "eth0", "--config", &place.old]).expect(0);
        // New sources have full buckets.
        assert_eq!(case.settled(ahead), BY_OLD);
        // A source without tokens gets one token per second, and none for the offset of the other clock.
        let source: IpAddr = "10.96.0.1".parse().unwrap();
        assert_eq!(case.probe.passed(source), 3);
        limiter(&["set", "eth0", "--limit", "strangers", "--rate", "1/m"]).expect(0);
        let begin = std::time::Instant::now();
        let passed = case.probe.passed(source);
        let minutes = begin.elapsed().as_secs() / 60 + 1;
        assert!(passed as u64 <= minutes, "{ahead}: {passed} at once");
        // The command shows equal tokens inside and outside the namespace.
        let tokens = |outcome: Outcome| {
            outcome.expect(0);
            let check: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
            check["limits"][0]["tokens"].as_f64().unwrap()
        };
        let check = ["check", "eth0", "10.96.0.1", "--json"];
        let here = tokens(place.hosts.limiter(&check));
        let there = tokens(limiter(&check));
        let since = begin.elapsed().as_secs_f64() / 60.0;
        assert!((here - there).abs() <= since, "{ahead}: {here} and {there}");
        limiter(&["detach", "eth0"]).expect(0);
        assert_eq!(case.settled(ahead), ABSENT);
    }
}

#[test]
fn clock_step_costs_and_gives_at_most_one_burst() {
    need_kernel!();
    const SECOND: u64 = 1_000_000_000;
    const BURST: u64 = 7;
    const HOUR: u64 = 3_600 * SECOND;
    let mut tried = 0;
    for (forth, step) in [
        (true, SECOND / 2),
        (true, HOUR),
        (true, 9_000 * HOUR),
        (false, SECOND / 2),
        (false, 10 * SECOND),
        (false, HOUR),
        (false, 9_000 * HOUR),
    ] {
        // The limit gives one token per second. The source sends every 250 ms.
        let kernel = Kernel::new(&Limit::new("1/s", &BURST.to_string()));
        let packet = Frame::from("192.0.2.7".parse().unwrap()).bytes();
        let from = 10_000 * HOUR;
        let admitted = |start: u64, seconds: u64| {
            let times = (0..seconds * 4).map(|quarter| start + quarter * SECOND / 4);
            let passed = |time: &u64| kernel.run(&packet, *time).1.passes();
            times.filter(passed).count() as u64
        };
        // The first packet finds a full bucket, and one of its tokens is back after a second.
        assert_eq!(admitted(from, 20), BURST + 19);
        let last = from + 20 * SECOND;
        let start = if forth { last + step } else { last - step };
        let after = admitted(start, 20);
        let at = format!("{step} ns, forth: {forth}: {after} in 20 s");
        assert!(after <= BURST + 20, "{at}");
        assert!(after >= 20 - BURST, "{at}");
        tried += 1;
    }
    assert_eq!(tried, 7);
}
