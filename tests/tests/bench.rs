//! The benchmark runs, and each subject does the work that is measured.
//!
//! The figures of such a short run mean nothing.

use std::{fs, process::Command};

use limiter_tests::{command::Outcome, need, need_kernel, number};
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
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let outcome = run(&["--quick", "--out", out]);
    let report = fs::read_to_string(folder.path().join("results.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    for one in report["left_out"].as_array().unwrap() {
        // Few kernels support tc-police. Every other subject must be measured.
        assert_eq!(field(one, "subject"), "tc-police", "{one}");
    }
    let results = report["results"].as_array().unwrap();
    for result in results {
        look_at(
            result,
            number(&report["packets"]),
            number(&report["rounds"]),
        );
    }
    for subject in [
        "limiter",
        "limiter-nested",
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
