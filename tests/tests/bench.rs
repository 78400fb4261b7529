//! The benchmark runs, and each subject does the work that is measured.
//!
//! The figures of such a short run mean nothing.

use std::{fs, process::Command};

use limiter_tests::{command::Outcome, need, need_kernel, need_redis, number};
use serde_json::Value;

fn run(arguments: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(arguments)
        .output()
        .unwrap();
    let outcome = Outcome::of(format!("bench {}", arguments.join(" ")), output);
    outcome.expect(0);
    outcome
}

#[test]
fn steps_benchmark_measures_every_step() {
    need_kernel!();
    let outcome = run(&["--quick", "--only", "steps"]);
    for word in ["bare drop", "limiter, frags", "clock", "lookup"] {
        assert!(
            outcome.stdout.contains(word),
            "wanted '{word}': {outcome:#?}"
        );
    }
}

fn field<'a>(result: &'a Value, name: &str) -> &'a str {
    result[name].as_str().unwrap()
}

#[test]
fn wire_benchmark_measures_every_subject() {
    need_kernel!();
    for tool in ["ethtool", "nft", "iptables"] {
        if !need::tool("wire_benchmark_measures_every_subject", tool) {
            return;
        }
    }
    // One subject runs the command.
    let _ = limiter_tests::command::binary();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let outcome = run(&["--quick", "--only", "wire", "--out", out]);
    let report = fs::read_to_string(folder.path().join("results.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let wire = &report["wire"];
    for one in wire["left_out"].as_array().unwrap() {
        // Few kernels support tc-police. Every other subject must be measured.
        assert_eq!(field(one, "subject"), "tc-police", "{one}");
    }
    let results = wire["results"].as_array().unwrap();
    for result in results {
        look_at(result, number(&wire["packets"]), number(&wire["rounds"]));
    }
    for subject in [
        "limiter",
        "limiter-nested",
        "limiter-watched",
        "reference",
        "nft-ingress",
        "hashlimit",
    ] {
        for (family, verdict) in [("ipv4", "dropped"), ("ipv4", "passed"), ("ipv6", "dropped")] {
            let there = results.iter().any(|result| {
                field(result, "subject") == subject
                    && field(result, "family") == family
                    && field(result, "verdict") == verdict
            });
            assert!(there, "{subject}, {family}, {verdict}: {outcome:#?}");
        }
    }
}

/// Panics unless the result has a figure, and no packet was lost on the wire.
fn look_at(result: &Value, packets: u64, rounds: u64) {
    let cpus = if field(result, "cpus") == "one" { 1 } else { 2 };
    assert!(result["median"].as_f64().unwrap() > 0.0, "{result}");
    let (sent, delivered) = (number(&result["sent"]), number(&result["delivered"]));
    assert_eq!(sent, packets * rounds * cpus, "{result}");
    let all_pass = field(result, "verdict") == "passed" || field(result, "subject") == "none";
    if all_pass {
        assert_eq!(delivered, sent, "{result}");
    } else if field(result, "sources") != "new" {
        assert!(delivered * 100 <= sent, "{result}");
    }
}

#[test]
fn member_traffic_does_not_grow_with_the_fleet() {
    need_redis!();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let outcome = run(&["--quick", "--only", "fleet", "--out", out]);
    let report = fs::read_to_string(folder.path().join("fleet.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let results = report["fleet"]["results"].as_array().unwrap();
    // Bytes of one member in one round, there and back.
    let bytes = |agents: u64, at: u64| {
        let is_it = |one: &&Value| {
            let case = &one["case"];
            let same = case["agents"] == agents && case["at"] == at;
            same && case["sources"] == 200 && case["cluster"] == false
        };
        let found = results.iter().find(is_it);
        let one = found.unwrap_or_else(|| panic!("{agents} at {at}: {outcome:#?}"));
        one["to_store"].as_f64().unwrap() + one["from_store"].as_f64().unwrap()
    };
    for (few, many) in [(1, 1), (5, 20)] {
        let (few, many) = (bytes(5, few), bytes(20, many));
        // Each source needs at least its name and its figures.
        assert!(few > 200.0 * 40.0, "{few} bytes: {outcome:#?}");
        assert!(many < few * 1.2 && few < many * 1.2, "{few}, {many}");
    }
    // Every node of the cluster takes part.
    let cluster = results.iter().find(|one| one["case"]["cluster"] == true);
    let [received, records] = [0, 1].map(|of| cluster.unwrap()["unevenness"][of].as_f64());
    assert!(received < Some(2.0) && records < Some(2.0), "{outcome:#?}");
    assert!(
        received >= Some(1.0) && records >= Some(1.0),
        "{outcome:#?}"
    );
}
