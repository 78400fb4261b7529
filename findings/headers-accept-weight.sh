#!/usr/bin/env bash
# headers-accept finds no type for "Accept: text/plain;q=1" if the server offers "text/plain;version=0.0.4".
#
# headers-accept 0.3.0 with mediatype 0.21.0. The offered type is that of Prometheus' text format. The range "text/plain" covers it,
# and the crate finds it. A weight is no part of the range, and 1 is the weight of a range that names none, so "text/plain;q=1"
# should find it too. It finds nothing: a weight makes the crate compare all parameters.
#
# Output seen:
#   text/plain: text/plain; version=0.0.4
#   text/plain;q=1: none
#   text/*;q=1: text/plain; version=0.0.4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "negotiate"
version = "0.0.0"
edition = "2021"
[dependencies]
headers-accept = "=0.3.0"
mediatype = "=0.21.0"
TOML
cat >src/main.rs <<'RUST'
fn main() {
    let offered = [mediatype::MediaType::parse("text/plain;version=0.0.4").unwrap()];
    for header in ["text/plain", "text/plain;q=1", "text/*;q=1"] {
        let accept: headers_accept::Accept = header.parse().unwrap();
        let chosen = accept.negotiate(&offered).map_or("none".to_string(), ToString::to_string);
        println!("{header}: {chosen}");
    }
}
RUST
cargo build --quiet
target/debug/negotiate | tee seen
cmp - seen <<'END'
text/plain: text/plain; version=0.0.4
text/plain;q=1: none
text/*;q=1: text/plain; version=0.0.4
END
