//! The benchmark runs, and each subject does the work that is measured.
//!
//! The figures of such a short run mean nothing.

use std::{fs, process::Command};

use limiter_tests::{command::Outcome, need, need_kernel, number};
use serde_json::Value;

#[test]
fn wire_benchmark_measures_every_subject() {
    need_kernel!();
    for tool in ["ethtool", "nft", "iptables"] {
        if !need::tool("wire_benchmark_measures_every_subject", tool) {
            return;
        }
    }
    let subjects = ["limiter-nested", "reference", "nft-ingress", "hashlimit"];
    let results = measures(&["--quick"], &subjects);
    for (recipe, held) in [("web", 32), ("dns", 75), ("game", 98)] {
        for subject in [recipe.to_owned(), format!("nft-{recipe}")] {
            let of_subject = |one: &&Value| one["subject"] == subject;
            let on_wire = results.iter().filter(of_subject);
            let found: Vec<_> = on_wire.map(|one| number(&one["held"])).collect();
            assert!(!found.is_empty(), "{subject} is measured");
            assert!(found.iter().all(|one| *one == held), "{subject}: {found:?}");
        }
    }
}

#[test]
fn wire_benchmark_measures_every_field_and_key() {
    need_kernel!();
    if need::tool("wire_benchmark_measures_every_field_and_key", "ethtool") {
        let fields = [
            "limiter",
            "limiter-destination",
            "limiter-icmp",
            "limiter-flow",
        ];
        measures(&["--quick", "--fields"], &fields);
    }
}

/// Returns the results.
fn measures(options: &[&str], subjects: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
    bench.args(options).arg("--out").arg(folder.path());
    let outcome = Outcome::of(
        format!("bench {}", options.join(" ")),
        bench.output().unwrap(),
    );
    outcome.expect(0);
    let report = fs::read_to_string(folder.path().join("results.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let left_out = &report["left_out"];
    assert_eq!(
        *left_out,
        serde_json::json!([]),
        "every subject is measured"
    );
    let results = report["results"].as_array().unwrap();
    let sent = number(&report["packets"]) * number(&report["rounds"]);
    results.iter().for_each(|result| look_at(result, sent));
    for subject in subjects {
        for case in [["ipv4", "dropped"], ["ipv4", "passed"], ["ipv6", "dropped"]] {
            let is_there = |result: &Value| {
                result["subject"] == *subject && [&result["family"], &result["verdict"]] == case
            };
            assert!(
                results.iter().any(is_there),
                "{subject}, {case:?}: {outcome:#?}"
            );
        }
    }
    results.clone()
}

/// Panics unless the result has a figure, and no packet was lost on the wire.
fn look_at(result: &Value, of_each: u64) {
    let cpus = if result["cpus"] == "one" { 1 } else { 2 };
    assert!(result["median"].as_f64().unwrap() > 0.0, "{result}");
    let (sent, delivered) = (number(&result["sent"]), number(&result["delivered"]));
    assert_eq!(sent, of_each * cpus, "{result}");
    let all_pass = result["verdict"] == "passed" || result["subject"] == "none";
    if all_pass {
        assert_eq!(delivered, sent, "{result}");
    } else if result["sources"] != "new" {
        assert!(delivered * 100 <= sent, "{result}");
    }
}
