//! Measures the speed of `limiter replay` and the memory it needs, by engine and by the length of the capture:
//! `cargo run --release -p limiter-tests --example replay_speed [PACKETS]`.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    net::Ipv4Addr,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{
    captures::{Captured, add, header},
    command::prepared,
    files::Folder,
    packet::Frame,
};

const START: u64 = 1_700_000_000_000_000_000;
/// A million packets a second.
const APART: u64 = 1_000;

/// A flood: of ten packets nine are from 50,000 sources that send again and again, and one is from a source of its own.
fn write(path: &str, packets: u32) {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut file = BufWriter::new(File::create(path).unwrap());
    file.write_all(&header(1)).unwrap();
    let mut frame = Frame::from(Ipv4Addr::LOCALHOST.into()).bytes();
    let mut record = Vec::new();
    for number in 0..packets {
        let source = match number % 10 {
            0 => rng.u32(..),
            _ => 0x0a00_0000 + rng.u32(0..50_000),
        };
        frame[26..30].copy_from_slice(&source.to_be_bytes());
        let time = START + u64::from(number) * APART;
        record.clear();
        add(&mut record, &Captured::whole(time, frame.clone()));
        file.write_all(&record).unwrap();
    }
    file.flush().unwrap();
}

/// Seconds, and the most memory that was seen, in KiB.
fn measure(arguments: &[&str]) -> (f64, u64) {
    let begun = Instant::now();
    let mut command = prepared(arguments);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut memory = 0;
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        memory = memory.max(kilobytes.unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    (begun.elapsed().as_secs_f64(), memory)
}

fn main() {
    let packets = std::env::args()
        .nth(1)
        .map_or(1_000_000, |text| text.parse().unwrap());
    let folder = Folder::new();
    println!(
        "{:7} {:>12} {:>14} {:>12}",
        "ENGINE", "PACKETS", "PACKETS/S", "MEMORY"
    );
    for length in [packets, 10 * packets] {
        let path = folder.path("capture.pcap");
        write(&path, length);
        for engine in ["model", "kernel"] {
            let arguments = [
                "replay", &path, "--rate", "5/s", "--burst", "10", "--engine", engine,
            ];
            let (seconds, memory) = measure(&arguments);
            let speed = f64::from(length) / seconds;
            println!("{engine:7} {length:12} {speed:14.0} {memory:8} KiB");
        }
    }
}
