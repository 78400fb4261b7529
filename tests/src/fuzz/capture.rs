//! Fuzz target for captures: compares the reader with another one (pcap-file), and replays and learns the packets.

use std::{io::Cursor, sync::LazyLock};

use limiter_common::table::Seed;
use limiter_user::{
    config::{Settings, file},
    plan::{
        capture::{Capture, Cut, Error, link},
        learn::{Bounds, frames::FromFrames, propose, show},
        replay::{Choice, FRAME_MOST},
    },
};
use pcap_file::{
    pcap::PcapReader,
    pcapng::{Block, PcapNgReader},
};

use super::expect_one_line;
use crate::captures::{match_all_fields, replay};

/// A packet: its bytes, its length on the wire, and its time in nanoseconds, if that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    bytes: Vec<u8>,
    length: u64,
    time: Option<u64>,
}

/// Reads a capture. Another reader must find the same packets, and replay must decide about each once.
pub(super) fn run(bytes: &[u8]) {
    let (ours, end) = match ours(bytes) {
        Ok(read) => read,
        Err(why) => return expect_one_line(&why.to_string()),
    };
    compare(&ours, &end, &theirs(bytes));
    if end.is_ok() {
        replayed(bytes, ours.len());
    }
}

type Ours = (Vec<Packet>, Result<Option<Cut>, Error>);

/// All packets, and the end of the capture.
fn ours(bytes: &[u8]) -> Result<Ours, Error> {
    let mut capture = Capture::new("test", Cursor::new(bytes.to_vec()))?;
    let mut learnt = FromFrames::new(Seed::KNOWN, Bounds::default());
    let (mut packets, mut room) = (Vec::new(), Vec::new());
    let mut before = 0;
    let end = loop {
        let packet = match capture.next() {
            Ok(Some(packet)) => packet,
            Ok(None) => break Ok(capture.cut()),
            Err(why) => {
                expect_one_line(&why.to_string());
                break Err(why);
            }
        };
        packets.push(Packet {
            bytes: packet.bytes.to_vec(),
            length: packet.length,
            time: Some(packet.time),
        });
        assert_eq!(packet.number, packets.len() as u64);
        assert!(packet.time >= before, "times never go back");
        assert!(packet.length >= packet.bytes.len() as u64);
        before = packet.time;
        let frame = link::frame(&packet, FRAME_MOST, &mut room);
        assert!((14..=FRAME_MOST).contains(&frame.bytes.len()));
        learnt.see(packet.time, frame.bytes, frame.length);
    };
    let watched = learnt.finish();
    if let Ok(proposal) = propose(&watched, 0.999) {
        let text = show::file(Some("eth0"), &watched, &proposal).unwrap();
        assert!(file::parse(&text, ".".as_ref()).is_ok(), "{text}");
    }
    Ok((packets, end))
}

/// The packets that pcap-file reads, up to the first error.
fn theirs(bytes: &[u8]) -> Vec<Packet> {
    if let Ok(mut reader) = PcapReader::new(Cursor::new(bytes)) {
        let packets = std::iter::from_fn(|| {
            reader.next_packet()?.ok().map(|packet| Packet {
                length: packet.orig_len.into(),
                time: u64::try_from(packet.timestamp.as_nanos()).ok(),
                bytes: packet.data.into_owned(),
            })
        });
        return packets.collect();
    }
    let Ok(mut reader) = PcapNgReader::new(Cursor::new(bytes)) else {
        return Vec::new();
    };
    let mut packets = Vec::new();
    while let Some(Ok(block)) = reader.next_block() {
        match block {
            Block::EnhancedPacket(packet) => packets.push(Packet {
                length: packet.original_len.into(),
                time: None,
                bytes: packet.data.into_owned(),
            }),
            // The two readers disagree about padding here.
            Block::SimplePacket(_) | Block::Packet(_) => break,
            _ => {}
        }
    }
    packets
}

/// Panics unless both readers agree. Our reader may read fewer packets if it reports an error.
fn compare(ours: &[Packet], end: &Result<Option<Cut>, Error>, theirs: &[Packet]) {
    let mut ordered = true;
    let mut last = 0;
    for (number, (our, their)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(our.bytes, their.bytes, "packet {number}");
        assert_eq!(
            our.length,
            their.length.max(our.bytes.len() as u64),
            "packet {number}"
        );
        // Only our reader orders packets by time.
        let time = their.time.unwrap_or(0);
        ordered &= time >= last;
        last = time;
        if ordered && their.time.is_some() {
            assert_eq!(our.time, their.time, "packet {number}");
        }
    }
    let complete = matches!(end, Ok(None));
    assert!(
        !complete || ours.len() >= theirs.len(),
        "{} packets without a word, and there are {}",
        ours.len(),
        theirs.len()
    );
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(match_all_fields);

fn replayed(bytes: &[u8], packets: usize) {
    let (replay, verdicts) = replay(bytes, &SETTINGS, Choice::Model).unwrap();
    assert_eq!(verdicts.len(), packets);
    let all = replay.verdicts;
    let [seen, passed, dropped] = [all.seen, all.passed, all.dropped].map(|count| count.packets);
    assert_eq!(seen, packets as u64);
    assert_eq!(seen, passed + dropped);
    let _ = limiter_user::show::replay::text(&replay);
}
