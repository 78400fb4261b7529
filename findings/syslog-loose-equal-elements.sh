#!/usr/bin/env bash
# syslog_loose says that two messages are equal if one of them has more structured data than the other.
#
# syslog_loose 0.23.0 from crates.io. Two elements of structured data should be equal if they have the same parameters. The crate
# sorts them, and compares as many as the shorter element has: an element without parameters equals each one of its name, and so do
# the messages. A filter that drops repeated messages drops one that says more.
#
# Output seen:
#   [ban@64496 ip="192.0.2.7"] and [ban@64496 ip="192.0.2.8"]: equal messages: false
#   [ban@64496 ip="192.0.2.7"] and [ban@64496 ip="192.0.2.7" port="22"]: equal messages: true
#   [ban@64496] and [ban@64496 ip="192.0.2.7"]: equal messages: true
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >Cargo.toml <<'T'
[package]
name = "finding"
version = "0.0.0"
edition = "2021"

[dependencies]
syslog_loose = "=0.23.0"
T
mkdir src
cat >src/main.rs <<'R'
fn main() {
    let line = |data: &str| format!("<13>1 2026-11-30T12:00:00Z host app - - {data} ban");
    for (one, other) in [
        (r#"[ban@64496 ip="192.0.2.7"]"#, r#"[ban@64496 ip="192.0.2.8"]"#),
        (r#"[ban@64496 ip="192.0.2.7"]"#, r#"[ban@64496 ip="192.0.2.7" port="22"]"#),
        (r#"[ban@64496]"#, r#"[ban@64496 ip="192.0.2.7"]"#),
    ] {
        let (first, second) = (line(one), line(other));
        let first = syslog_loose::parse_message(&first, syslog_loose::Variant::Either);
        let second = syslog_loose::parse_message(&second, syslog_loose::Variant::Either);
        println!("{one} and {other}: equal messages: {}", first == second);
    }
}
R
cargo build --quiet
target/debug/finding | tee seen
cmp - seen <<'END'
[ban@64496 ip="192.0.2.7"] and [ban@64496 ip="192.0.2.8"]: equal messages: false
[ban@64496 ip="192.0.2.7"] and [ban@64496 ip="192.0.2.7" port="22"]: equal messages: true
[ban@64496] and [ban@64496 ip="192.0.2.7"]: equal messages: true
END
