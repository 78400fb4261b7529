//! Fuzz target for captures: compares the reader with another one (pcap-file), and replays and learns the packets.

use std::{collections::BTreeMap, io::Cursor, sync::LazyLock};

use limiter_common::table::Seed;
use limiter_config::{Settings, file};
use limiter_user::plan::{
    capture::{Capture, Frame, Link, link::FRAME_MOST},
    learn::{Watched, propose, show},
};
use pcap_file::{
    DataLink,
    pcap::PcapReader,
    pcapng::{
        Block, PcapNgReader,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};

use super::message::expect_one_line;
use crate::captures::{match_all_fields, replay};

/// A frame that another reader has read; none if its framing is not supported, or may have a checksum.
fn their(link: DataLink, bytes: &[u8], length: u32) -> Option<Frame> {
    let length = u64::from(length).max(bytes.len() as u64);
    let link = Link::of_number(link.into()).filter(|link| *link != Link::Radiotap)?;
    Some(link.frame(bytes, length))
}

/// True if the packet may have a checksum behind it, which the other reader does not know.
fn has_checksum(
    interface: &InterfaceDescriptionBlock<'_>,
    packet: &EnhancedPacketBlock<'_>,
) -> bool {
    const CHECKSUM: u32 = 0x1e0;
    let mut of_interface = interface.options.iter();
    let mut of_packet = packet.options.iter();
    of_interface.any(|option| matches!(option, InterfaceDescriptionOption::IfFcsLen(_)))
        || of_packet.any(
            |option| matches!(option, EnhancedPacketOption::Flags(flags) if flags & CHECKSUM != 0),
        )
}

/// Reads a capture. Another reader must find the same packets, and replay must decide about each once.
pub(super) fn run(bytes: &[u8]) {
    let (ours, is_complete) = match ours(bytes) {
        Ok(read) => read,
        Err(why) => return expect_one_line(&why.to_string()),
    };
    compare(&ours, is_complete, &theirs(bytes));
    replayed(bytes, ours.len());
}

/// All packets, by number, and whether nothing is missing.
fn ours(bytes: &[u8]) -> anyhow::Result<(BTreeMap<u64, Frame>, bool)> {
    let mut capture = Capture::new("test", Cursor::new(bytes.to_vec()))?;
    let mut watched = Watched::new(Seed::KNOWN);
    let mut packets = BTreeMap::new();
    let (mut before, mut last) = (0, 0);
    for packet in &mut capture {
        let (frame, time) = (packet.frame, packet.time);
        assert!(packet.number > last, "numbers grow");
        last = packet.number;
        assert!(time >= before, "times never go back");
        assert!((14..=FRAME_MOST).contains(&frame.bytes.len()));
        assert!(frame.length >= frame.bytes.len() as u64);
        before = time;
        watched.see(time, &frame);
        packets.insert(last, frame);
    }
    let unread: u64 = capture.unread.values().sum();
    assert_eq!(packets.len() as u64 + unread, capture.packets);
    if let Ok(proposal) = propose(&watched) {
        let text = show::file(Some("eth0"), &watched, &proposal);
        assert!(file::parse(&text, ".".as_ref()).is_ok(), "{text}");
    }
    Ok((packets, capture.cut.is_none() && unread == 0))
}

/// The packets that pcap-file reads, up to the first error. It knows no checksums: captures with them are left out.
fn theirs(bytes: &[u8]) -> Vec<Frame> {
    if let Ok(mut reader) = PcapReader::new(Cursor::new(bytes)) {
        let link = u32::from(reader.header().datalink);
        if link & 0x0400_0000 != 0 {
            return Vec::new();
        }
        let packets = std::iter::from_fn(|| {
            let packet = reader.next_packet()?.ok()?;
            their(DataLink::from(link & 0xffff), &packet.data, packet.orig_len)
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
        let interface = interface.filter(|interface| !has_checksum(interface, &packet));
        let read = interface
            .and_then(|interface| their(interface.linktype, &packet.data, packet.original_len));
        let Some(read) = read else { break };
        packets.push(read);
    }
    packets
}

/// Panics unless both readers agree. Our reader may read fewer packets if it reports an error.
fn compare(ours: &BTreeMap<u64, Frame>, is_complete: bool, theirs: &[Frame]) {
    for (number, their) in (1..).zip(theirs) {
        if let Some(our) = ours.get(&number) {
            assert_eq!(our, their, "packet {number}");
        }
    }
    assert!(
        !is_complete || ours.len() >= theirs.len(),
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
    let _ = limiter_user::show::replay::text(&replay, SETTINGS.direction);
}
