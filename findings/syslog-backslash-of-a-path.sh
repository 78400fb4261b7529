#!/usr/bin/env bash
# Two Rust readers of syslog change the path "C:\new" in structured data: one makes a line feed of "\n", one leaves out the "\".
#
# syslog_loose 0.23.0 and syslog_rfc5424 0.10.0 from crates.io. Only a quotation mark, a backslash and a closing bracket are escaped
# by a backslash; in front of any other character it should be read as a backslash (RFC 5424, section 6.3.3). params() of
# syslog_loose does so in "C:\temp" and not in front of an "n". syslog_rfc5424 never does. The path of a file or the user of a
# Windows domain is another one then.
#
# Output seen, in the notation of Rust:
#   plain: syslog_loose "plain", syslog_rfc5424 "plain"
#   [x\]: syslog_loose "[x]", syslog_rfc5424 "[x]"
#   C:\temp: syslog_loose "C:\\temp", syslog_rfc5424 "C:temp"
#   C:\new: syslog_loose "C:\new", syslog_rfc5424 "C:new"
#   EXAMPLE\nina: syslog_loose "EXAMPLE\nina", syslog_rfc5424 "EXAMPLEnina"
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
syslog_rfc5424 = "=0.10.0"
T
mkdir src
cat >src/main.rs <<'R'
fn main() {
    for value in [r#"plain"#, r#"[x\]"#, r"C:\temp", r"C:\new", r"EXAMPLE\nina"] {
        let line = format!(r#"<13>1 2026-11-30T12:00:00Z host app - - [file@64496 name="{value}"] text"#);
        let loose = syslog_loose::parse_message(&line, syslog_loose::Variant::Either);
        let (_, loose) = loose.structured_data[0].params().next().unwrap();
        let strict: syslog_rfc5424::SyslogMessage = line.parse().unwrap();
        let strict = strict.sd.find_tuple("file@64496", "name").unwrap();
        println!("{value}: syslog_loose {:?}, syslog_rfc5424 {:?}", loose, strict);
    }
}
R
cargo build --quiet
target/debug/finding | tee seen
cmp - seen <<'END'
plain: syslog_loose "plain", syslog_rfc5424 "plain"
[x\]: syslog_loose "[x]", syslog_rfc5424 "[x]"
C:\temp: syslog_loose "C:\\temp", syslog_rfc5424 "C:temp"
C:\new: syslog_loose "C:\new", syslog_rfc5424 "C:new"
EXAMPLE\nina: syslog_loose "EXAMPLE\nina", syslog_rfc5424 "EXAMPLEnina"
END
