#!/usr/bin/env bash
# openmetrics-parser refuses a page of Prometheus' text format that has two metrics without a type.
#
# openmetrics-parser 0.5.1 from crates.io, its reader of Prometheus' text format. The documentation of the format says that a metric
# without a TYPE line has the type "untyped", and that HELP is optional: files that scripts write for a node exporter often have
# neither. One such metric is read, and two are "Invalid Name in metric family": the second one is taken for a sample of the first.
# A page that other readers take has then no metrics at all.
#
# Output seen:
#   "packets_dropped 7\n": 1 families
#   "packets_dropped 7\npackets_passed 9\n": InvalidMetric("Invalid Name in metric family: packets_passed != packets_dropped")
#   "# TYPE packets_dropped untyped\npackets_dropped 7\n# TYPE packets_passed untyped\npackets_passed 9\n": 2 families
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "read"
version = "0.0.0"
edition = "2021"
[dependencies]
openmetrics-parser = "=0.5.1"
TOML
cat >src/main.rs <<'RUST'
fn main() {
    for page in [
        "packets_dropped 7\n",
        "packets_dropped 7\npackets_passed 9\n",
        "# TYPE packets_dropped untyped\npackets_dropped 7\n# TYPE packets_passed untyped\npackets_passed 9\n",
    ] {
        match openmetrics_parser::prometheus::parse_prometheus(page) {
            Ok(exposition) => println!("{page:?}: {} families", exposition.families.len()),
            Err(error) => println!("{page:?}: {error:?}"),
        }
    }
}
RUST
cargo build --quiet
target/debug/read | tee seen
cmp - seen <<'END'
"packets_dropped 7\n": 1 families
"packets_dropped 7\npackets_passed 9\n": InvalidMetric("Invalid Name in metric family: packets_passed != packets_dropped")
"# TYPE packets_dropped untyped\npackets_dropped 7\n# TYPE packets_passed untyped\npackets_passed 9\n": 2 families
END
