#!/usr/bin/env bash
# The Rust crate simple-dns reads the flag "DNSSEC OK" as EDNS version 128, and the answer BADCOOKIE as YXRRSET.
#
# simple-dns 0.13.0 from crates.io. The four bytes behind the size in an OPT record are the upper bits of the answer's code, the
# version, and two bytes of flags (RFC 6891). The crate takes the last byte for the code and the third one for the version. A
# query by "dig +dnssec" thus has version 128. An answer that asks for a cookie (code 23) says that a name exists (7). BADVERS of
# the crate itself has a version and code of 0 for everyone else, which is an answer without an error.
#
# Output seen:
#   no flag: version 0
#   DNSSEC OK: version 128
#   BADCOOKIE: YXRRSET
#   BADVERS as simple-dns writes it: code 0, version 0, flags 0001
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
simple-dns = "=0.13.0"
TOML
cat >src/main.rs <<'RUST'
use simple_dns::{rdata::OPT, Packet, RCODE};

/// An OPT record at the end of a message without questions; `low` are the lower bits of its code.
fn message(low: u8, [code, version, flags, rest]: [u8; 4]) -> Vec<u8> {
    let opt = [0, 0, 41, 4, 0xd0, code, version, flags, rest, 0, 0];
    [&[0, 1, 0x80, low, 0, 0, 0, 0, 0, 0, 0, 1][..], &opt].concat()
}

fn main() {
    for (name, flags) in [("no flag", 0), ("DNSSEC OK", 0x80)] {
        let message = message(0, [0, 0, flags, 0]);
        println!("{name}: version {}", Packet::parse(&message).unwrap().opt().unwrap().version);
    }
    let bad_cookie = message(7, [1, 0, 0, 0]);
    println!("BADCOOKIE: {:?}", Packet::parse(&bad_cookie).unwrap().rcode());

    let mut answer = Packet::new_reply(1);
    *answer.opt_mut() = Some(OPT { udp_packet_size: 1232, version: 0, opt_codes: Vec::new() });
    *answer.rcode_mut() = RCODE::BADVERS;
    let bytes = answer.build_bytes_vec().unwrap();
    let code = u16::from(bytes[17]) << 4 | u16::from(bytes[3] & 15);
    println!("BADVERS as simple-dns writes it: code {code}, version {}, flags {:02x}{:02x}", bytes[18], bytes[19], bytes[20]);
}
RUST
cargo run --quiet | tee seen
cmp - seen <<'END'
no flag: version 0
DNSSEC OK: version 128
BADCOOKIE: YXRRSET
BADVERS as simple-dns writes it: code 0, version 0, flags 0001
END
