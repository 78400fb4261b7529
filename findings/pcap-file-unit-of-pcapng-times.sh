#!/usr/bin/env bash
# The Rust crate pcap-file takes the times of a pcapng file for nanoseconds, whatever unit the file names.
#
# pcap-file 2.0.0 from crates.io. An interface of a pcapng file names the unit of its times, and microseconds are the unit if it
# names none, as in the files of dumpcap. All three packets were captured 1,700,000,000 s after 1970. The crate reads the option, and
# does not use it: two packets are in 1970, and intervals are 1,000 times too short, so that rates are 1,000 times too high.
#
# Output seen:
#   no unit: 1700000s
#   microseconds: 1700000s
#   nanoseconds: 1700000000s
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
pcap-file = "=2.0.0"
TOML
cat >src/main.rs <<'RUST'
use pcap_file::pcapng::{Block, PcapNgReader};

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

/// A file with one packet. `digits` are the decimal digits of a second in its times.
fn file(digits: Option<u8>) -> Vec<u8> {
    let section = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let mut interface = vec![1, 0, 0, 0, 0, 0, 4, 0];
    if let Some(digits) = digits {
        interface.extend([9, 0, 1, 0, digits, 0, 0, 0, 0, 0, 0, 0]);
    }
    let time = 1_700_000_000 * 10u64.pow(digits.unwrap_or(6).into());
    let mut packet = vec![0; 4];
    packet.extend(((time >> 32) as u32).to_le_bytes());
    packet.extend((time as u32).to_le_bytes());
    packet.extend([60, 0, 0, 0, 60, 0, 0, 0]);
    packet.extend([0; 60]);
    [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat()
}

fn main() {
    for (name, digits) in [("no unit", None), ("microseconds", Some(6)), ("nanoseconds", Some(9))] {
        let file = file(digits);
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                println!("{name}: {:?}", packet.timestamp);
            }
        }
    }
}
RUST
cargo run --quiet | tee seen
cmp - seen <<'END'
no unit: 1700000s
microseconds: 1700000s
nanoseconds: 1700000000s
END
