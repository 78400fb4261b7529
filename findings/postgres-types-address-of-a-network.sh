#!/usr/bin/env bash
# postgres-types reads a network of PostgreSQL's type inet as its first address, without an error.
#
# postgres-types 0.2.14 (of tokio-postgres and postgres), with cidr 0.3 for the other side, from crates.io. A column of type inet
# holds the ban 192.0.2.0/24. Reading it as std's IpAddr should fail, because IpAddr has no prefix length, as reading a text as a
# number does. It gives 192.0.2.0: a program that loads its bans this way bans one address of 256.
#
# Output seen:
#   in the column: 192.0.2.0/24
#   as IpInet: 192.0.2.0/24
#   as IpAddr: 192.0.2.0
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
cidr = "=0.3.2"
postgres-types = { version = "=0.2.14", features = ["with-cidr-0_3"] }
TOML
cat >src/main.rs <<'RUST'
use cidr::IpInet;
use postgres_types::{FromSql, ToSql, Type};
use std::net::IpAddr;

fn main() {
    let ban: IpInet = "192.0.2.0/24".parse().unwrap();
    // The bytes that the server sends for a column of type inet.
    let mut column = bytes::BytesMut::new();
    let _ = ban.to_sql(&Type::INET, &mut column).unwrap();
    assert_eq!(column[..], [2, 24, 0, 4, 192, 0, 2, 0]);
    println!("in the column: {ban}");
    println!("as IpInet: {}", IpInet::from_sql(&Type::INET, &column).unwrap());
    println!("as IpAddr: {}", IpAddr::from_sql(&Type::INET, &column).unwrap());
}
RUST
cargo build --quiet
target/debug/read | tee seen
cmp - seen <<'END'
in the column: 192.0.2.0/24
as IpInet: 192.0.2.0/24
as IpAddr: 192.0.2.0
END
