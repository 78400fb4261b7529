//! Captures in pcap and pcapng format are read in any byte order, and unreadable ones are refused with a reason.

use std::io;

use limiter_config::Direction;
use limiter_user::plan::capture::{Capture, Frame, Link, Times, Unread};

/// Byte order of a file.
#[derive(Clone, Copy, Debug)]
struct Order {
    big: bool,
}

impl Order {
    fn bytes<const N: usize>(self, mut big: [u8; N]) -> [u8; N] {
        if !self.big {
            big.reverse();
        }
        big
    }

    fn u32(self, value: u32) -> [u8; 4] {
        self.bytes(value.to_be_bytes())
    }

    fn u16(self, value: u16) -> [u8; 2] {
        self.bytes(value.to_be_bytes())
    }

    fn u64(self, value: u64) -> [u8; 8] {
        self.bytes(value.to_be_bytes())
    }

    /// A pcap file with packets (seconds, fraction, original length, bytes).
    fn pcap(self, magic: u32, link: u32, packets: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
        let mut file = self.u32(magic).to_vec();
        file.extend(self.u16(2));
        file.extend(self.u16(4));
        for word in [0, 0, 262_144, link] {
            file.extend(self.u32(word));
        }
        for (seconds, fraction, length, bytes) in packets {
            let captured = size(bytes);
            for word in [*seconds, *fraction, captured, *length] {
                file.extend(self.u32(word));
            }
            file.extend(*bytes);
        }
        file
    }

    /// A block of pcapng.
    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(4), 0);
        let length = self.u32(size(&padded) + 12);
        [&self.u32(kind)[..], &length, &padded, &length].concat()
    }

    fn section(self) -> Vec<u8> {
        let unknown_length = self.u64(u64::MAX);
        let version = [self.u16(1), self.u16(0)].concat();
        let body = [&self.u32(0x1a2b_3c4d)[..], &version, &unknown_length].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).expect("an option is short");
        let mut option = [self.u16(code), self.u16(length)].concat();
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn interface(self, link: u16, most: u32, resolution: u8, offset: u64) -> Vec<u8> {
        let mut body = [self.u16(link), self.u16(0)].concat();
        body.extend(self.u32(most));
        body.extend(self.option(9, &[resolution]));
        body.extend(self.option(14, &self.u64(offset)));
        body.extend(self.option(0, &[]));
        self.block(1, &body)
    }

    fn packet(self, interface: u32, time: u64, length: u32, bytes: &[u8], flags: u32) -> Vec<u8> {
        let mut body = Vec::new();
        let [high, low] = [time >> 32, time & 0xffff_ffff].map(word);
        let captured = size(bytes);
        for word in [interface, high, low, captured, length] {
            body.extend(self.u32(word));
        }
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(self.option(2, &self.u32(flags)));
        body.extend(self.option(0, &[]));
        self.block(6, &body)
    }
}

fn word(value: u64) -> u32 {
    u32::try_from(value).expect("half of a number")
}

fn size(bytes: &[u8]) -> u32 {
    word(bytes.len() as u64)
}

const ORDERS: [Order; 2] = [Order { big: false }, Order { big: true }];
const SECOND: u64 = 1_000_000_000;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// A packet: time, frame, direction.
type Seen = (u64, Frame, Option<Direction>);

const OUT: Option<Direction> = Some(Direction::Out);

fn read(file: &[u8]) -> anyhow::Result<(Vec<Seen>, Option<&'static str>)> {
    let mut capture = Capture::new("test", io::Cursor::new(file.to_vec()))?;
    let mut seen = Vec::new();
    for packet in &mut capture {
        assert_eq!(packet.number, seen.len() as u64 + 1);
        seen.push((packet.time, packet.frame, packet.direction));
    }
    assert_eq!(capture.packets, seen.len() as u64);
    assert_eq!(capture.times(), Times::default());
    Ok((seen, capture.cut))
}

/// The numbers of the packets that are read, and the packets that are not.
fn read_and_unread(file: &[u8]) -> (Vec<u64>, Vec<(Unread, u64)>, Option<&'static str>) {
    let capture = Capture::new("test", io::Cursor::new(file.to_vec()));
    let mut capture = capture.expect("the header is valid");
    let numbers = capture.by_ref().map(|packet| packet.number).collect();
    let unread = capture.unread.iter().map(|(why, packets)| (*why, *packets));
    (numbers, unread.collect(), capture.cut)
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_time_units() {
    let (short, long) = (&[1_u8, 2, 3][..], &[7_u8; 2_000][..]);
    let packets = [(10, 999_999, 3, short), (11, 5, 9_000, long)];
    for order in ORDERS {
        for (magic, unit) in [(MICROSECONDS, 1_000), (NANOSECONDS, 1)] {
            let file = order.pcap(magic, 1, &packets);
            let (first, second) = (10 * SECOND + 999_999 * unit, 11 * SECOND + 5 * unit);
            let wanted = vec![
                (first, Link::Ethernet.frame(short, 3), None),
                (second, Link::Ethernet.frame(long, 9_000), None),
            ];
            let read = read(&file).unwrap();
            assert_eq!(read, (wanted, None), "{order:?}, {magic:#x}");
        }
    }
}

#[test]
fn pcapng_with_several_interfaces_and_sections_is_read() {
    let mut file = Vec::new();
    let mut wanted = Vec::new();
    for order in ORDERS {
        let bytes = [9_u8; 21];
        file.extend(order.section());
        // Microseconds, 1/1024 s, and nanoseconds before 2001.
        file.extend(order.interface(1, 0, 6, 0));
        file.extend(order.interface(101, 0, 0x8a, 3));
        file.extend(order.interface(113, 0, 9, (-5_i64).cast_unsigned()));
        // Statistics, which are not a packet.
        file.extend(order.block(5, &[0; 12]));
        let base = 100 + 100 * u64::from(order.big);
        file.extend(order.packet(0, base * 1_000_000 + 7, 21, &bytes, 0));
        file.extend(order.packet(1, base * 1_024 + 512, 60, &bytes, 2));
        file.extend(order.packet(2, (base + 10) * 1_000_000_000 + 1, 21, &bytes, 1));
        let (start, raw_time) = (base * SECOND, (base + 3) * SECOND + SECOND / 2);
        let last = start + 5 * SECOND + 1;
        wanted.extend([
            (start + 7_000, Link::Ethernet.frame(&bytes, 21), None),
            (raw_time, Link::Raw.frame(&bytes, 60), OUT),
            (last, Link::Cooked.frame(&bytes, 21), Some(Direction::In)),
        ]);
    }
    assert_eq!(read(&file).unwrap(), (wanted, None));
}

#[test]
fn unreadable_captures_are_refused_with_a_reason() {
    let order = ORDERS[0];
    let pcap = |link| order.pcap(MICROSECONDS, link, &[(0, 0, 1, &[0])]);
    let compressed = b"\x1f\x8b\x08\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let other = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    let cases: [(Vec<u8>, &str); 4] = [
        (Vec::new(), "is empty"),
        (compressed.to_vec(), "gunzip -c"),
        (other.to_vec(), "neither pcap nor pcapng"),
        (pcap(1)[..20].to_vec(), "ends within the header"),
    ];
    for (file, wanted) in cases {
        let error = read(&file).unwrap_err().to_string();
        assert!(
            error.starts_with("test") && error.contains(wanted),
            "{error}"
        );
    }
    let opened = |path: &str| Capture::open(path.as_ref()).err().unwrap().to_string();
    let missing = opened("/nonexistent.pcap");
    assert!(
        missing.starts_with("/nonexistent.pcap cannot be read"),
        "{missing}"
    );
    let folder = opened("/");
    assert!(folder.contains("directory"), "{folder}");
}

#[test]
fn packets_that_cannot_be_read_are_counted_and_left_out() {
    for order in ORDERS {
        let packet = |interface| order.packet(interface, 1, 1, &[1], 0);
        // A packet that is longer than its block, and a description of an interface that is too short.
        let mut longer = packet(0);
        longer[20..24].copy_from_slice(&order.u32(5_000));
        let block = |kind, length: usize| order.block(kind, &vec![0; length]);
        let file = [
            order.section(),
            order.interface(1, 0, 6, 0),
            packet(0),
            longer,
            // Also in another block than that of a packet.
            block(5, 4),
            order.interface(999, 0, 6, 0),
            packet(1),
            packet(0),
            // A simple packet has no time, and one of an obsolete kind needs a header.
            block(3, 8),
            block(2, 8),
            order.interface(1, 0, 20, 0),
            packet(2),
            packet(3),
            block(1, 4),
            order.interface(1, 0, 6, 0),
            packet(3),
            packet(4),
        ];
        let read = read_and_unread(&file.concat());
        let unread = vec![
            (Unread::Link(999), 1),
            (Unread::Time, 1),
            (Unread::Interface, 3),
            (Unread::Block, 2),
        ];
        assert_eq!(read, (vec![1, 4, 10], unread, None), "{order:?}");
    }
}

#[test]
fn packets_in_the_obsolete_kind_of_block_are_read() {
    for order in ORDERS {
        let bytes = [9_u8; 21];
        let mut body = [order.u16(1), order.u16(7)].concat();
        for word in [0, 5_000_000, 21, 60] {
            body.extend(order.u32(word));
        }
        body.extend(bytes);
        let (raw, other) = (order.interface(101, 0, 6, 0), order.interface(1, 0, 6, 0));
        let file = [order.section(), other, raw, order.block(2, &body)].concat();
        let wanted = vec![(5 * SECOND, Link::Raw.frame(&bytes, 60), None)];
        assert_eq!(read(&file).unwrap(), (wanted, None), "{order:?}");
    }
}

#[test]
fn checksum_behind_a_packet_does_not_count() {
    let bytes = [7_u8; 64];
    let wanted = Link::Ethernet.frame(&bytes[..60], 60);
    for order in ORDERS {
        let frames = |file: &[u8]| {
            let (seen, _) = read(file).unwrap();
            seen.into_iter()
                .map(|(_, frame, _)| frame)
                .collect::<Vec<_>>()
        };
        // Two words of two bytes, and the bit that says so.
        for (link, frame) in [
            (0x2400_0001, wanted.clone()),
            (0x2000_0001, Link::Ethernet.frame(&bytes, 64)),
        ] {
            let file = order.pcap(MICROSECONDS, link, &[(1, 0, 64, &bytes)]);
            assert_eq!(frames(&file), [frame], "{link:#x}");
        }
        // Of the interface, in bits or in bytes; of the packet, which decides.
        let described = |length: u8| {
            let mut body = [order.u16(1), order.u16(0)].concat();
            body.extend(order.u32(0));
            body.extend(order.option(13, &[length]));
            order.block(1, &body)
        };
        for (length, flags) in [(32, 0), (4, 0), (0, 4 << 5), (16, 4 << 5)] {
            let packet = order.packet(0, 1, 64, &bytes, flags);
            let file = [order.section(), described(length), packet].concat();
            assert_eq!(
                frames(&file),
                std::slice::from_ref(&wanted),
                "{length}, {flags:#x}"
            );
        }
        // A packet of which the checksum was not captured, and one that is shorter than a checksum.
        let packets = [(1, 0, 64, &bytes[..50]), (1, 0, 3, &bytes[..3])];
        let file = order.pcap(MICROSECONDS, 0x2400_0001, &packets);
        let [cut, short] = [(50, 60), (0, 0)]
            .map(|(captured, length)| Link::Ethernet.frame(&bytes[..captured], length));
        assert_eq!(frames(&file), [cut, short]);
    }
}

#[test]
fn modified_pcap_is_read_in_both_byte_orders() {
    const MODIFIED: u32 = 0xa1b2_cd34;
    for order in ORDERS {
        let mut file = order.pcap(MODIFIED, 1, &[]);
        let bytes = [3_u8; 70_000];
        for length in [0, 60, 70_000, 61] {
            for word in [1, 5, length, length] {
                file.extend(order.u32(word));
            }
            file.extend([0; 8]);
            file.extend(&bytes[..length as usize]);
        }
        let lengths = |file: &[u8]| {
            let (seen, cut) = read(file).unwrap();
            assert!(seen.iter().all(|(time, ..)| *time == SECOND + 5_000));
            let lengths: Vec<_> = seen.iter().map(|seen| seen.1.length).collect();
            (lengths, cut)
        };
        assert_eq!(
            lengths(&file),
            (vec![14, 60, 70_000, 61], None),
            "{order:?}"
        );
        let cut = (vec![14, 60, 70_000], Some("cut off"));
        for missing in [1, 61, 65, 84] {
            let file = &file[..file.len() - missing];
            assert_eq!(lengths(file), cut, "{order:?}, {missing}");
        }
    }
}

#[test]
fn long_gaps_are_bounded_and_packets_out_of_order_are_counted() {
    let order = ORDERS[0];
    let (first, late) = (0, 1_500_000_000);
    let packets = [first, late, late - 100, late + 1].map(|time| (time, 0, 1, &[1_u8][..]));
    let file = order.pcap(MICROSECONDS, 1, &packets);
    let mut capture = Capture::new("test", io::Cursor::new(file)).unwrap();
    let packets: Vec<_> = capture.by_ref().collect();
    let times: Vec<_> = packets.iter().map(|packet| packet.time).collect();
    let (day, gap) = (86_400 * SECOND, u64::from(late) * SECOND);
    let year = 365 * day + gap % day;
    assert_eq!(times, [0, year, year, year + SECOND]);
    let captured = packets.iter().map(|packet| packet.captured_at / SECOND);
    assert!(captured.eq([0, late, late - 100, late + 1].map(u64::from)));
    let wanted = Times {
        long_gaps: 1,
        earlier: 1,
        earliest_by: 100 * SECOND,
    };
    assert_eq!(capture.times(), wanted);
}

#[test]
fn damaged_capture_ends_at_the_damage() {
    let order = ORDERS[0];
    let begin = [order.section(), order.interface(1, 0, 6, 0)].concat();
    let packet = order.packet(0, 0, 1, &[1], 0);
    // The two lengths of a following block differ.
    let mut damaged = packet.clone();
    *damaged.last_mut().unwrap() = 1;
    let (seen, cut) = read(&[begin.clone(), packet.clone(), damaged, packet].concat()).unwrap();
    assert_eq!((seen.len(), cut), (1, Some("damaged")));
    // A packet of three gigabytes, in an endless file.
    let mut endless = order.pcap(MICROSECONDS, 1, &[(0, 0, 1, &[1])]);
    endless.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0]);
    endless.resize(20 << 20, 0);
    let (seen, cut) = read(&endless).unwrap();
    assert_eq!((seen.len(), cut), (1, Some("damaged")));
}

#[test]
fn long_blocks_are_read() {
    let order = ORDERS[0];
    // Also the first one, with a comment after another.
    let comment = order.option(1, &[b'x'; 60_000]);
    let first = [&order.section()[8..24], &comment.repeat(20)].concat();
    let file = [
        order.block(0x0a0d_0d0a, &first),
        order.interface(1, 0, 6, 0),
    ]
    .concat();
    let packet = order.packet(0, 1, 1, &[1], 0);
    let (seen, cut) = read(&[file, packet].concat()).unwrap();
    assert_eq!((seen.len(), cut), (1, None));
    let long = vec![3_u8; 3 << 20];
    let mut file = [order.section(), order.block(0xbad, &long)].concat();
    file.extend(order.interface(1, 0, 6, 0));
    file.extend(order.packet(0, 1, 3 << 20, &long, 0));
    file.extend(order.packet(0, 2, 1, &[1], 0));
    let (seen, cut) = read(&file).unwrap();
    let lengths: Vec<_> = seen.iter().map(|seen| seen.1.length).collect();
    // One byte is no Ethernet header: the frame gets an empty one.
    assert_eq!((lengths, cut), (vec![3 << 20, 14], None));
}
