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
    let (results, text) = measures(&["--quick"], &subjects);
    for (recipe, held) in [("web", 97), ("dns", 79), ("game", 98)] {
        for subject in [recipe.to_owned(), format!("nft-{recipe}")] {
            let of_subject = |result: &&Value| result["subject"] == subject;
            let on_wire = results.iter().filter(of_subject);
            let found: Vec<_> = on_wire.map(|result| number(&result["held"])).collect();
            assert!(!found.is_empty(), "{subject} is measured");
            assert!(
                found.iter().all(|percent| *percent == held),
                "{subject}: {found:?}"
            );
        }
    }
    for bytes in row("frame, bytes") {
        let title = format!("packets of {bytes} bytes on average");
        assert!(text.contains(&title), "docs/scaling.md: {bytes}\n{text}");
    }
}

#[test]
fn scaling_page_follows_from_its_prices() {
    const BARE: f64 = 42.0;
    const BYTES: f64 = 100e9 / 8.0;
    let line_rate = BYTES / 84.0 / 1e6;
    for (column, price) in row("P, ns").into_iter().enumerate() {
        let handled = 32e3 / (BARE + price);
        let same = |name: &str, wanted: f64| {
            let written = row(name)[column];
            assert!(
                (written - wanted).abs() <= 0.51,
                "{name}: {written}, {wanted}"
            );
        };
        same(
            "cores for line rate",
            (line_rate * (BARE + price) / 1e3).ceil(),
        );
        same("32 cores handle, million/s", handled.min(line_rate));
        let shortest = BYTES / handled.min(line_rate) / 1e6 - 20.0;
        same("line rate from frames of, bytes", shortest.ceil().max(64.0));
    }
    let packets = row("packets at line rate, million/s");
    for (column, bytes) in row("frame, bytes").into_iter().enumerate() {
        let wanted = BYTES / (bytes + 24.0) / 1e6;
        assert!((packets[column] - wanted).abs() <= 0.1, "{bytes}: {wanted}");
        for limiter in ["limiter", "nft"] {
            let price = row(&format!("P of {limiter}, ns"))[column];
            let cores = row(&format!("cores that {limiter} takes"))[column];
            assert!(
                (cores - packets[column] * price / 1e3).abs() <= 0.5,
                "{limiter}: {cores}"
            );
        }
    }
}

/// The numbers of a row of docs/scaling.md.
fn row(name: &str) -> Vec<f64> {
    let page = include_str!("../../docs/scaling.md");
    let name = format!("| {name} |");
    let line = page.lines().find_map(|line| line.strip_prefix(&name));
    let cells = line.unwrap_or_else(|| panic!("no row {name}")).split('|');
    let numbers = cells.map(str::trim).filter(|cell| !cell.is_empty());
    numbers.map(|cell| cell.parse().expect(cell)).collect()
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

/// Returns the results, and the tables.
fn measures(options: &[&str], subjects: &[&str]) -> (Vec<Value>, String) {
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
    (results.clone(), outcome.stdout)
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
