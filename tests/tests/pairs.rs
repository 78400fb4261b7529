//! Limits by destination, pair and flow: buckets, and `check`, `top` and `reset` of them.

use limiter_tests::{
    hosts::{Hosts, SERVER},
    need_kernel,
    packet::Ends,
    traffic::{Traffic, ends},
};
use serde_json::Value;

/// A packet meets one of the first two limits, and the last.
const LIMITS: &str = r#"
interfaces = ["eth0"]

[[limit]]
name = "flows"
match = { protocol = "udp", destination_port = 53 }
key = "flow"
rate = "1/h"
burst = 2

[[limit]]
name = "pairs"
match = { protocol = "udp", destination_port = 80 }
key = "source/24,/48 + destination + destination_port"
rate = "1/h"
burst = 3

[[limit]]
name = "destinations"
key = "destination"
rate = "1/h"
burst = 100
"#;

fn attached() -> Hosts {
    let hosts = Hosts::new();
    hosts.attach_file(LIMITS);
    hosts
}

/// Sends two UDP packets from this source and port. Returns how many passed.
fn passed(traffic: &Traffic<'_>, hosts: &Hosts, source: &str, ports: (u16, u16)) -> u64 {
    let ends: Ends = ends(hosts, source.parse().unwrap(), 9).at(ports.0, ports.1);
    let frame = ends.udp(&[0; 18]);
    traffic.send(&[&frame, &frame])
}

/// One line for each bucket: limit, key, packets passed.
fn buckets(check: &Value) -> Vec<String> {
    let limits = check["limits"].as_array().unwrap().iter();
    let line = |limit: &Value| {
        let [name, bucket] = ["name", "bucket"].map(|key| limit[key].as_str().unwrap().to_owned());
        format!("{name} of {bucket}: {}", limit["passed_packets"])
    };
    limits.map(line).collect()
}

#[test]
fn flows_and_pairs_have_their_own_buckets() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    for (source, ports, expected) in [
        ("192.0.2.7", (4_000, 53), 2),
        ("192.0.2.7", (4_000, 53), 0),
        ("192.0.2.7", (4_001, 53), 2),
        ("192.0.2.8", (4_000, 53), 2),
        ("2001:db8::7", (4_000, 53), 2),
        ("2001:db8::7", (4_000, 53), 0),
        ("2001:db8::7", (4_001, 53), 2),
        // A pair has the /24, and any source port.
        ("192.0.2.7", (4_000, 80), 2),
        ("192.0.2.8", (4_001, 80), 1),
        ("198.51.100.8", (4_001, 80), 2),
        ("2001:db8::7", (4_000, 80), 2),
        ("2001:db8:0:1::7", (4_000, 80), 1),
        ("2001:db8:1::7", (4_000, 80), 2),
    ] {
        let found = passed(&traffic, &hosts, source, ports);
        assert_eq!(found, expected, "{source}, {ports:?}");
    }
    let check = |options: &str| {
        let check = hosts.json(&format!("check eth0 {options} --json"));
        buckets(&check)
    };
    let (udp, destination) = ("--protocol udp --from-port 4000", format!("--to {SERVER}"));
    assert_eq!(
        check(&format!("192.0.2.7 {destination} --port 53 {udp}")),
        [
            format!("flows of udp 192.0.2.7:4000 -> {SERVER}:53: 2"),
            format!("pairs of 192.0.2.0/24 -> {SERVER} port 53: 0"),
            format!("destinations of -> {SERVER}: 11"),
        ]
    );
    // Without a port, `check` shows those that the pair has sent to.
    let pair = format!("pairs of 192.0.2.0/24 -> {SERVER} port 80: 3");
    assert!(check(&format!("192.0.2.9 {destination}")).contains(&pair));
    let destination = "--to fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd";
    let found = check(&format!("2001:db8::7 {destination} --port 53 {udp}"));
    assert!(found[0].starts_with("flows of flow #"), "{found:?}");
    assert!(found[0].ends_with(": 2"), "{found:?}");
    let found = check(&format!("2001:db8:0:1::9 {destination} --port 80"));
    assert!(found[0].starts_with("pairs of pair #"), "{found:?}");
    assert!(found[0].ends_with(" port 80: 3"), "{found:?}");

    let top = hosts.json("top eth0 --once --json");
    let sources = top["sources"].as_array().unwrap().iter();
    let sources: Vec<_> = sources.map(|row| row["source"].as_str().unwrap()).collect();
    for shown in [
        format!("udp 192.0.2.7:4000 -> {SERVER}:53"),
        format!("192.0.2.0/24 -> {SERVER} port 80"),
        format!("-> {SERVER}"),
    ] {
        assert!(sources.contains(&&*shown), "{shown}: {sources:?}");
    }
    let hashed = sources.iter().filter(|shown| shown.starts_with("flow #"));
    assert_eq!(hashed.count(), 2, "{sources:?}");
}

#[test]
fn check_names_the_missing_options() {
    need_kernel!();
    let hosts = attached();
    let missing = |options: &str, expected: &[&str]| {
        let text = hosts.run(&format!("check eth0 {options}"));
        let lines: Vec<_> = text.lines().filter(|line| line.contains("give")).collect();
        assert_eq!(lines, expected);
    };
    let destination = format!("--to {SERVER}");
    let pairs = "  pairs: not checked, because its key is source/24,/48 + destination + \
                 destination_port: give --to too";
    missing(
        "192.0.2.7",
        &[
            "  flows: not checked, because its key is flow: give --to, --port, --from-port, \
             --protocol too",
            pairs,
            "  destinations: not checked, because its key is destination: give --to too",
        ],
    );
    missing(
        &format!("192.0.2.7 {destination} --port 53 --protocol udp"),
        &[
            "  flows: not checked, because its key is flow: give --from-port too",
            "  whether this packet passes is not known: give --from-port too",
        ],
    );
    missing(&format!("192.0.2.7 {destination} --protocol icmp"), &[]);
    let wrong = hosts.limiter("check eth0 192.0.2.7 --to 2001:db8::1");
    wrong.expect_error(
        1,
        &["no packet goes from 192.0.2.7 to 2001:db8::1: write an IPv4 address after --to"],
    );
}

#[test]
fn reset_says_which_limits_it_cannot_reset() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    let flows = [("192.0.2.7", (4_000, 53)), ("192.0.2.7", (4_001, 53))];
    let other = ("192.0.2.8", (4_000, 53));
    for (source, ports) in flows.into_iter().chain([other]) {
        assert_eq!(passed(&traffic, &hosts, source, ports), 2);
    }
    assert_eq!(
        hosts.run("reset eth0 192.0.2.7"),
        "eth0: refilled 2 buckets of 192.0.2.7; \
         limit 'destinations' is not reset, because its key has more: add --to, or \
         `limiter reset eth0 --all` refills all buckets\n"
    );
    for (source, ports) in flows {
        assert_eq!(passed(&traffic, &hosts, source, ports), 2);
    }
    assert_eq!(passed(&traffic, &hosts, other.0, other.1), 0);
    let of_ipv6 = hosts.run("reset eth0 2001:db8::7");
    assert!(of_ipv6.starts_with("eth0: unchanged: limit 'flows' is not reset"));
    let why = "limit 'pairs' is not reset, because its key has more";
    assert!(of_ipv6.contains(why), "{of_ipv6}");
    let partly = hosts.run("reset eth0 192.0.2.7 --port 53");
    let why = "limit 'flows' is not reset, because its key has more: add --to, --from-port, --protocol, or";
    assert!(partly.contains(why), "{partly}");
}

/// The options of `check` name one bucket, also one with a hash as its key.
#[test]
fn reset_with_a_destination_refills_one_bucket() {
    need_kernel!();
    let hosts = attached();
    let traffic = Traffic::new(&hosts);
    let source = "2001:db8::7";
    let [reset, other] = [4_000, 4_001].map(|port| (port, 53));
    for ports in [reset, other] {
        assert_eq!(passed(&traffic, &hosts, source, ports), 2);
    }
    let done = hosts.run(
        "reset eth0 2001:db8::7 --to fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd --port 53 --from-port 4000 --protocol udp",
    );
    assert_eq!(done, "eth0: refilled 2 buckets of 2001:db8::7\n");
    assert_eq!(passed(&traffic, &hosts, source, reset), 2);
    assert_eq!(passed(&traffic, &hosts, source, other), 0);
}
