//! Reads captures made by other programs, and writes captures for tests.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use limiter_common::policy::verdict::Reason;
use limiter_config::{Settings, compile::FIRST_SLOT, file};
use limiter_user::plan::{
    capture::Capture,
    replay::{self, Compiled, Outcome},
};

use crate::{cpus::pin_to, engine::Kernel};

/// A packet for a capture.
#[derive(Clone, Debug)]
pub struct Captured {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// The packet's bytes.
    pub bytes: Vec<u8>,
    /// Number of bytes that are captured.
    pub kept: usize,
}

impl Captured {
    /// A completely captured packet.
    pub fn whole(time: u64, bytes: Vec<u8>) -> Self {
        Self {
            time,
            kept: bytes.len(),
            bytes,
        }
    }
}

/// The header of a pcap file with nanoseconds.
pub fn header(link: u32) -> Vec<u8> {
    let mut file = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0]);
    for word in [0, 0, 262_144, link] {
        file.extend(word.to_le_bytes());
    }
    file
}

/// Adds a packet to a file.
pub fn add(file: &mut Vec<u8>, packet: &Captured) {
    const SECOND: u64 = 1_000_000_000;
    let Captured { time, bytes, kept } = packet;
    let words = [
        time / SECOND,
        time % SECOND,
        *kept as u64,
        bytes.len() as u64,
    ];
    for word in words {
        file.extend(u32::try_from(word).unwrap().to_le_bytes());
    }
    file.extend(&bytes[..*kept]);
}

/// A pcap file of Ethernet frames.
pub fn pcap(packets: &[Captured]) -> Vec<u8> {
    let mut file = header(1);
    for packet in packets {
        add(&mut file, packet);
    }
    file
}

/// The captures made by other programs, by name.
pub fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/captures");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_capture = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("pcap" | "pcapng"))
    };
    let mut files: Vec<_> = files.filter(is_capture).collect();
    files.sort();
    files
}

/// Limits that match on every field of a packet that a limit can read.
pub fn match_all_fields() -> Settings {
    let text = "exempt = [\"control\"]\nnew_sources = \"20/s\"\nmax_sources = 64\n\
        [lists]\ndeny = [\"10.0.0.0/8\"]\nnear = [\"192.168.0.0/16\", \"fe80::/10\"]\n\
        [[limit]]\nname = \"tcp\"\nmatch = { protocol = \"tcp\", tcp_flags = \"syn\" }\nrate = \"1/s\"\n\
        [[limit]]\nname = \"ports\"\nkey = \"/32,/128,destination_port\"\nrate = \"2/s\"\nburst = 3\n\
        [[limit]]\nname = \"fragments\"\nmatch = { fragments = true }\nrate = \"1/m\"\n\
        [[limit]]\nname = \"near\"\nmatch = { source = \"near\" }\nkey = \"/24,/48\"\nrate = \"16kbit\"\nburst = \"2kb\"\n\
        [[limit]]\nname = \"all\"\nkey = \"interface\"\nrate = \"2/m\"\nburst = 2\nalgorithm = \"fixed-window\"\nshadow = true\n";
    file::parse(text, ".".as_ref()).unwrap().settings
}

/// Replays a file: the outcome, and the verdict on each packet.
pub fn replay(file: &[u8], settings: &Settings) -> anyhow::Result<(Outcome, Vec<Option<Reason>>)> {
    let mut capture = Capture::new("test", io::Cursor::new(file.to_vec()))?;
    let compiled = Compiled::new(settings).unwrap();
    let mut verdicts = Vec::new();
    let outcome = replay::run(&mut capture, &compiled, |_, decided| {
        verdicts.push(decided.reason);
        Ok(())
    })?;
    Ok((outcome, verdicts))
}

/// Replays a file, and runs the program in the kernel on each packet. Both must agree on every packet and on the
/// counters of every limit.
pub fn replay_by_both(
    about: &str,
    file: &[u8],
    settings: &Settings,
) -> (Outcome, Vec<Option<Reason>>) {
    // Each CPU has its own lease of new sources, and the model is a single CPU.
    pin_to(0);
    let (outcome, verdicts) = replay(file, settings).unwrap();
    let capture = Capture::new("test", io::Cursor::new(file.to_vec())).unwrap();
    let mut packets = capture.peekable();
    let begin = packets.peek().map_or(0, |packet| packet.time);
    let kernel = Kernel::replaying(settings, begin);
    let by_kernel = packets.map(|packet| {
        let decide = || kernel.offer_captured(&packet.frame, packet.time);
        packet.is_seen(settings.direction).then(decide)
    });
    let mut number = 0;
    for (by_kernel, by_model) in by_kernel.zip(&verdicts) {
        number += 1;
        assert_eq!(by_kernel, *by_model, "{about}: packet {number}");
    }
    assert_eq!(number, verdicts.len(), "{about}");
    // The program for a single limit leaves counting to its reasons.
    if kernel.program.entry().starts_with("limits") {
        for (slot, (limit, counters)) in (FIRST_SLOT..).zip(&outcome.limits) {
            let by_kernel = kernel.tables.limit(slot).unwrap();
            assert_eq!(by_kernel, *counters, "{about}: {}", limit.name);
        }
    }
    (outcome, verdicts)
}
