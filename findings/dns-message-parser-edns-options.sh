#!/usr/bin/env bash
# The Rust crate dns-message-parser refuses whole DNS messages for EDNS options that it does not know, and for some that it knows.
#
# dns-message-parser 0.9.0 from crates.io. An unknown EDNS option is ignored (RFC 6891), a cookie has up to 8 and 32 bytes (RFC
# 7873), and a client subnet may have no address (RFC 7871). All queries below are valid, and should be read. The crate refuses
# the option NSID, which "dig +nsid" sends, a cookie of 40 bytes, and the subnet 0.0.0.0/0, by which a client asks not to be named.
#
# Output seen:
#   no option: read
#   cookie of 8 bytes: read
#   cookie of 24 bytes: read
#   cookie of 40 bytes: CookieLength(40)
#   subnet 192.0.2.0/24: read
#   subnet 0.0.0.0/0: NotEnoughBytes(4, 4)
#   NSID: EDNSOptionCode(3)
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
bytes = "=1.11.0"
dns-message-parser = "=0.9.0"
TOML
cat >src/main.rs <<'RUST'
use dns_message_parser::Dns;

/// A query with an OPT record that has these options.
fn query(options: &[u8]) -> Vec<u8> {
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    query.extend(b"\x03www\x07example\0\0\x01\0\x01");
    query.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, options.len() as u8]);
    query.extend(options);
    query
}

fn cookie(length: u8) -> Vec<u8> {
    [vec![0, 10, 0, length], vec![7; length.into()]].concat()
}

fn main() {
    let options = [
        ("no option", vec![]),
        ("cookie of 8 bytes", cookie(8)),
        ("cookie of 24 bytes", cookie(24)),
        ("cookie of 40 bytes", cookie(40)),
        ("subnet 192.0.2.0/24", vec![0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2]),
        ("subnet 0.0.0.0/0", vec![0, 8, 0, 4, 0, 1, 0, 0]),
        ("NSID", vec![0, 3, 0, 0]),
    ];
    for (name, options) in options {
        match Dns::decode(query(&options).into()) {
            Ok(_) => println!("{name}: read"),
            Err(error) => println!("{name}: {error:?}"),
        }
    }
}
RUST
cargo run --quiet | tee seen
cmp - seen <<'END'
no option: read
cookie of 8 bytes: read
cookie of 24 bytes: read
cookie of 40 bytes: CookieLength(40)
subnet 192.0.2.0/24: read
subnet 0.0.0.0/0: NotEnoughBytes(4, 4)
NSID: EDNSOptionCode(3)
END
