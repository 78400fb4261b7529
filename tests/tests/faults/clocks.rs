//! Differing clocks do not affect limits, because the program uses only the kernel's monotonic clock.

use std::{net::IpAddr, process::Command};

use limiter_tests::{
    command::{Outcome, binary},
    need_kernel,
};

use super::case::{ABSENT, BY_OLD, Case, Place};

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
