#!/usr/bin/env bash
# prometheus-parse loses samples and labels if a label's value has a brace, a comma or an equals sign.
#
# prometheus-parse 0.2.5 from crates.io, a reader of Prometheus' text format. The value of a label is any text between quotes, and
# all four samples should be read as they are, or be an error. The crate looks for the braces, commas and equals signs of the
# syntax inside the values too. Nothing is said: one sample is missing, one has lost its label, two have a part of their value,
# and the escape of a quote stays in the value.
#
# Output seen:
#   limit{match="{eth0}"} 1: no sample
#   limit{match="eth0,eth1"} 1: match = eth0
#   limit{match="vlan=7"} 1: no label
#   limit{match="\"eth0\""} 1: match = \"eth0\
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "read"
version = "0.0.0"
edition = "2021"
[dependencies]
prometheus-parse = "=0.2.5"
TOML
cat >src/main.rs <<'RUST'
fn main() {
    for value in [r"{eth0}", r"eth0,eth1", r"vlan=7", r#"\"eth0\""#] {
        let line = format!("limit{{match=\"{value}\"}} 1");
        let lines = ["# TYPE limit gauge", &line].map(|line| Ok(line.to_string()));
        let samples = prometheus_parse::Scrape::parse(lines.into_iter()).unwrap().samples;
        let read = samples.first().map_or("no sample".to_string(), |sample| {
            sample.labels.get("match").map_or("no label".to_string(), |value| format!("match = {value}"))
        });
        println!("{line}: {read}");
    }
}
RUST
cargo build --quiet
target/debug/read | tee seen
cmp - seen <<'END'
limit{match="{eth0}"} 1: no sample
limit{match="eth0,eth1"} 1: match = eth0
limit{match="vlan=7"} 1: no label
limit{match="\"eth0\""} 1: match = \"eth0\
END
