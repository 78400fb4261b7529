#!/usr/bin/env bash
# enhanced-ms and the Rust crate parse_duration read ".5s" as five seconds.
#
# enhanced-ms 5.0.0, ms 2.1.3 and parse-duration 2.1.9 from npm, parse_duration 2.1.1 and humantime 2.4.0 from crates.io. ".5s"
# should be half a second, as in ms and parse-duration, or be refused, as by humantime. enhanced-ms and parse_duration start to
# read behind the point. A pause or a window becomes ten times as long, and ".25s" a hundred times.
#
# Output seen, in seconds:
#   "0.5s": enhanced-ms 0.5, ms 0.5, parse-duration 0.5, parse_duration 0.5, humantime 0.5
#   ".5s": enhanced-ms 5, ms 0.5, parse-duration 0.5, parse_duration 5, humantime refuses it
#   ".25s": enhanced-ms 25, ms 0.25, parse-duration 0.25, parse_duration 25, humantime refuses it
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true, "type": "module" }' >package.json
npm install enhanced-ms@5.0.0 ms@2.1.3 parse-duration@2.1.9 --silent --no-audit --no-fund
cat >read.js <<'J'
import { ms as enhanced } from "enhanced-ms";
import ms from "ms";
import parse from "parse-duration";

const text = process.argv[2];
console.log(`enhanced-ms ${enhanced(text) / 1000}, ms ${ms(text) / 1000}, parse-duration ${parse(text, "s")}`);
J
cat >Cargo.toml <<'T'
[package]
name = "finding"
version = "0.0.0"
edition = "2021"

[dependencies]
humantime = "=2.4.0"
parse_duration = "=2.1.1"
T
mkdir src
cat >src/main.rs <<'R'
fn main() {
    let text = std::env::args().nth(1).unwrap();
    let words = |seconds: Option<f64>| seconds.map_or("refuses it".to_owned(), |seconds| seconds.to_string());
    let parse_duration = parse_duration::parse(&text).ok().map(|duration| duration.as_secs_f64());
    let humantime = humantime::parse_duration(&text).ok().map(|duration| duration.as_secs_f64());
    println!("parse_duration {}, humantime {}", words(parse_duration), words(humantime));
}
R
cargo build --quiet
for text in 0.5s .5s .25s; do
  echo "\"$text\": $(node read.js "$text"), $(target/debug/finding "$text")"
done | tee seen
cmp - seen <<'END'
"0.5s": enhanced-ms 0.5, ms 0.5, parse-duration 0.5, parse_duration 0.5, humantime 0.5
".5s": enhanced-ms 5, ms 0.5, parse-duration 0.5, parse_duration 5, humantime refuses it
".25s": enhanced-ms 25, ms 0.25, parse-duration 0.25, parse_duration 25, humantime refuses it
END
