//! Fuzz target for captures: compares the reader with another one (pcap-file), and replays and learns the packets.

use std::{io::Cursor, sync::LazyLock};

use limiter_common::table::Seed;
use limiter_config::{Settings, file};
use limiter_user::plan::{
    capture::{Capture, Frame, Link, link::FRAME_MOST},
    learn::{Watched, propose, show},
};
use pcap_file::{
    DataLink,
    pcap::PcapReader,
    pcapng::{Block, PcapNgReader},
};

use super::message::expect_one_line;
use crate::captures::{match_all_fields, replay};

/// A frame that another reader has read; none if its framing is not supported.
fn their(link: DataLink, bytes: &[u8], length: u32) -> Option<Frame> {
    let length = u64::from(length).max(bytes.len() as u64);
    Some(Link::of_number(link.into())?.frame(bytes, length))
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

type Ours = (Vec<Frame>, anyhow::Result<Option<&'static str>>);

/// All packets, and the end of the capture.
fn ours(bytes: &[u8]) -> anyhow::Result<Ours> {
    let mut capture = Capture::new("test", Cursor::new(bytes.to_vec()))?;
    let mut watched = Watched::new(Seed::KNOWN);
    let mut packets = Vec::new();
    let mut before = 0;
    let end = loop {
        let packet = match capture.next() {
            Some(Ok(packet)) => packet,
            None => break Ok(capture.cut),
            Some(Err(why)) => {
                expect_one_line(&why.to_string());
                break Err(why);
            }
        };
        let (frame, time) = (packet.frame, packet.time);
        assert_eq!(packet.number, packets.len() as u64 + 1);
        assert!(time >= before, "times never go back");
        assert!((14..=FRAME_MOST).contains(&frame.bytes.len()));
        assert!(frame.length >= frame.bytes.len() as u64);
        before = time;
        watched.see(time, &frame);
        packets.push(frame);
    };
    if let Ok(proposal) = propose(&watched) {
        let text = show::file(Some("eth0"), &watched, &proposal);
        assert!(file::parse(&text, ".".as_ref()).is_ok(), "{text}");
    }
    Ok((packets, end))
}

/// The packets that pcap-file reads, up to the first error.
fn theirs(bytes: &[u8]) -> Vec<Frame> {
    if let Ok(mut reader) = PcapReader::new(Cursor::new(bytes)) {
        // The bits above are the length of the frames' checksum.
        let link = DataLink::from(u32::from(reader.header().datalink) & 0xffff);
        let packets = std::iter::from_fn(|| {
            let packet = reader.next_packet()?.ok()?;
            their(link, &packet.data, packet.orig_len)
        });
        return packets.collect();
    }
    let Ok(mut reader) = PcapNgReader::new(Cursor::new(bytes)) else {
        return Vec::new();
    };
    let mut packets = Vec::new();
    loop {
        let packet = match reader.next_block() {
            Some(Ok(Block::EnhancedPacket(packet))) => packet.into_owned(),
            // The two readers disagree about padding here.
            None | Some(Err(_) | Ok(Block::SimplePacket(_) | Block::Packet(_))) => break,
            Some(Ok(_)) => continue,
        };
        let interface = reader.interfaces().get(packet.interface_id as usize);
        let read = interface
            .and_then(|interface| their(interface.linktype, &packet.data, packet.original_len));
        let Some(read) = read else { break };
        packets.push(read);
    }
    packets
}

/// Panics unless both readers agree. Our reader may read fewer packets if it reports an error.
fn compare(ours: &[Frame], end: &anyhow::Result<Option<&str>>, theirs: &[Frame]) {
    for (number, (our, their)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(our, their, "packet {number}");
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
    let (replay, verdicts) = replay(bytes, &SETTINGS).unwrap();
    assert_eq!(verdicts.len(), packets);
    let all = replay.verdicts;
    let [seen, passed, dropped] = [all.seen, all.passed, all.dropped].map(|count| count.packets);
    assert_eq!(seen, packets as u64);
    assert_eq!(seen, passed + dropped);
    let _ = limiter_user::show::replay::text(&replay);
}
