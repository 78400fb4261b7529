#!/usr/bin/env bash
# A help text of two lines makes the whole page of the Rust crate prometheus-client unreadable.
#
# prometheus-client 0.26.0 from crates.io, and prometheus-client 0.26.0 from PyPI, which reads the page. OpenMetrics writes a line
# feed in a help text as "\n". The crate does so in labels, and should in help texts, or refuse them. It writes the line feed
# itself, so that the second line is taken for a sample. The reader refuses the page, with all other metrics on it.
#
# Output seen:
#   # HELP dropped Packets dropped,
#   by limit.
#   # TYPE dropped gauge
#   dropped 1
#   # EOF
#   ValueError: could not convert string to float: 'limit.'
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "page"
version = "0.0.0"
edition = "2021"
[dependencies]
prometheus-client = "=0.26.0"
TOML
cat >src/main.rs <<'RUST'
use prometheus_client::{encoding::text::encode, metrics::gauge::Gauge, registry::Registry};

fn main() {
    let mut registry = Registry::default();
    let dropped = Gauge::<i64>::default();
    dropped.set(1);
    registry.register("dropped", "Packets dropped,\nby limit", dropped);
    let mut page = String::new();
    encode(&mut page, &registry).unwrap();
    print!("{page}");
}
RUST
cargo build --quiet
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check prometheus-client==0.26.0
cat >read.py <<'P'
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

try:
    print(list(text_string_to_metric_families(sys.stdin.read())))
except ValueError as error:
    print(f"ValueError: {error}")
P
target/debug/page | tee page
venv/bin/python read.py <page | tee -a page
cmp - page <<'END'
# HELP dropped Packets dropped,
by limit.
# TYPE dropped gauge
dropped 1
# EOF
ValueError: could not convert string to float: 'limit.'
END
