//! `watch --write` writes the first bytes of drops as they were sent, in pcapng that other programs read, at both hooks.

mod files;

use std::{
    fs::{self, File},
    io::Write as _,
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use limiter_config::Direction;
use limiter_tests::{
    eventually,
    files::{Folder, at_driver},
    hosts::{CLIENT, Hosts, on},
    need, need_kernel, need_program,
    packet::Segment,
    raw::Raw,
    traffic::{Traffic, ends, udp},
    tun::Tun,
    watcher::Watcher,
};
use limiter_user::plan::capture::Capture;
use pcap_file::{
    DataLink,
    pcapng::{Block, PcapNgReader, blocks::enhanced_packet::EnhancedPacketOption},
};

const SEVERAL: &str = r#"
interfaces = ["eth0"]

[lists]
deny = ["203.0.113.66", "2001:db8:bad::/48"]

[[limit]]
name = "web"
match = { protocol = "tcp", destination_port = 80 }
rate = "1/h"
burst = 1
shadow = true

[[limit]]
name = "dns"
match = { protocol = "udp", destination_port = 53 }
rate = "1/h"
burst = 1
"#;

/// A packet in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    bytes: Vec<u8>,
    length: u32,
    comment: String,
    /// The kind of the verdict, and the action.
    verdict: (u8, i64),
}

/// Verdicts of XDP: `XDP_DROP` and `XDP_PASS`; and of tc: `TC_ACT_SHOT`.
const XDP_DROP: (u8, i64) = (2, 1);
const XDP_PASS: (u8, i64) = (2, 2);
const TC_DROP: (u8, i64) = (1, 2);

impl Written {
    /// A packet of which the first `snap` bytes are written, of a program at the driver.
    fn of(frame: &[u8], snap: usize, comment: &str) -> Self {
        let is_dropped = comment.starts_with("dropped");
        Self {
            verdict: if is_dropped { XDP_DROP } else { XDP_PASS },
            bytes: frame[..frame.len().min(snap)].to_vec(),
            length: frame.len() as u32,
            comment: comment.to_owned(),
        }
    }
}

/// The link type and the packets of a file, whose times must lie between `since` and now, and whose direction must be
/// this one.
fn read(path: &str, since: SystemTime, outgoing: bool) -> (DataLink, Vec<Written>) {
    let mut reader = PcapNgReader::new(File::open(path).unwrap()).unwrap();
    let (mut link, mut packets) = (None, Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => link = Some(interface.linktype),
            Block::EnhancedPacket(packet) => {
                let time = UNIX_EPOCH + packet.timestamp;
                assert!(
                    since - Duration::from_micros(10) <= time && time <= SystemTime::now(),
                    "{time:?}"
                );
                let [
                    EnhancedPacketOption::Comment(comment),
                    direction,
                    EnhancedPacketOption::Unknown(verdict),
                ] = &packet.options[..]
                else {
                    panic!("{packet:?}");
                };
                assert_eq!(verdict.code, 7);
                let (kind, action) = verdict.value.split_first().unwrap();
                let action = i64::from_ne_bytes(action.try_into().unwrap());
                let flags = if outgoing { 2 } else { 1 };
                assert_eq!(*direction, EnhancedPacketOption::Flags(flags));
                packets.push(Written {
                    bytes: packet.data.to_vec(),
                    length: packet.original_len,
                    comment: comment.to_string(),
                    verdict: (*kind, action),
                });
            }
            other => panic!("{other:?}"),
        }
    }
    (link.unwrap(), packets)
}

/// The number of times that a frame is in a file, which may not be there at the moment.
fn times(path: &str, frame: &[u8]) -> usize {
    let file = fs::read(path).unwrap_or_default();
    let windows = file.windows(frame.len());
    windows.filter(|window| *window == frame).count()
}

/// `replay`'s reader finds the same packets.
fn replay_reads(path: &str, outgoing: bool, packets: &[Written]) {
    let read: Vec<_> = Capture::open(Path::new(path)).unwrap().collect();
    assert_eq!(read.len(), packets.len());
    let direction = if outgoing {
        Direction::Out
    } else {
        Direction::In
    };
    for (read, packet) in read.into_iter().zip(packets) {
        assert_eq!(read.direction, Some(direction));
        // Packets without an Ethernet header get one.
        assert!(read.frame.bytes.ends_with(&packet.bytes));
        let more = read.frame.bytes.len() - packet.bytes.len();
        assert_eq!(read.frame.length, u64::from(packet.length) + more as u64);
    }
}

#[test]
fn tcpdump_reads_what_is_written() {
    need_kernel!();
    need_program!("tcpdump");
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.run("attach eth0 --rate 1/h --burst 1");
    let traffic = Traffic::new(&hosts);
    traffic.passed("192.0.2.7", 1);
    let path = folder.path("drops");
    let watcher = Watcher::start(&hosts, &["--write", &path, "--snap", "70", "-n", "2"]);
    // Ends of both packets are padded to words in the file.
    let frames = [5, 501].map(|length: u32| {
        let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
        ends(&hosts, "192.0.2.7".parse().unwrap(), 9).udp(&payload)
    });
    frames
        .iter()
        .for_each(|frame| assert_eq!(traffic.send(&[frame]), 0));
    assert_eq!(watcher.wait().status, 0);
    let mut command = Command::new("tcpdump");
    // Without -Z, it changes to a user of its own.
    command.args(["-Z", "root", "-nn", "-t", "-xx", "-r", &path]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // The lines of a packet's bytes begin with the offset; the line before the first one describes the packet.
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("\t0x") {
            Some(line) => {
                let (_, digits) = line.split_once(':').unwrap();
                found.last_mut().unwrap().push_str(&digits.replace(' ', ""));
            }
            None => found.push(String::new()),
        }
    }
    let hex = |frame: &Vec<u8>| {
        let first = &frame[..frame.len().min(70)];
        first
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(found, frames.iter().map(hex).collect::<Vec<_>>(), "{text}");
}

#[test]
fn drops_are_written_with_their_first_bytes_reason_and_limit() {
    need_kernel!();
    let since = SystemTime::now();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let config = folder.write("limiter.toml", at_driver(SEVERAL));
    hosts.run(&format!("attach eth0 --config {config}"));
    let traffic = Traffic::new(&hosts);
    let from = |source: &str, port| ends(&hosts, source.parse().unwrap(), port);
    let denied = from("2001:db8:bad::7", 7).udp(&[0x5a; 300]);
    let web = from("192.0.2.7", 80).tcp(Segment::Syn);
    // Other bytes, so that each packet's bytes can be told from the one before.
    let long: Vec<u8> = (0..1_400_u32).map(|index| index as u8).collect();
    let dns = [
        from("192.0.2.8", 53).udp(&long),
        from("192.0.2.9", 53).udp(&long[..61]),
    ];
    let frames = [
        &denied[..],
        &web,
        &web,
        &dns[0],
        &dns[0],
        &dns[1],
        &dns[1],
        &web[..30],
    ];
    for (name, options, snap) in [
        ("a", "", 128),
        ("b", " --snap 1", 1),
        ("c", " --snap 1536", 1_536),
    ] {
        hosts.run("reset eth0 --all");
        let path = folder.path(name);
        let arguments = format!("--write {path} --count 5{options}");
        let arguments: Vec<_> = arguments.split(' ').collect();
        let watcher = Watcher::start(&hosts, &arguments);
        // After as many drops as are wanted come others.
        frames
            .iter()
            .chain(&[&denied[..]])
            .for_each(|frame| assert!(traffic.send(&[frame]) <= 1));
        let ended = watcher.wait();
        assert_eq!(
            (ended.status, ended.sums().0, &ended.stdout[..]),
            (0, 5, ""),
            "{ended:?}"
        );
        let wanted = [
            (&denied[..], "dropped: denied"),
            (&web, "passed in shadow: over the limit web"),
            (&dns[0], "dropped: over the limit dns"),
            (&dns[1], "dropped: over the limit dns"),
            (&web[..30], "dropped: malformed"),
        ];
        let wanted = wanted.map(|(frame, comment)| Written::of(frame, snap, comment));
        let (link, packets) = read(&path, since, false);
        assert_eq!(
            (link, &packets[..]),
            (DataLink::ETHERNET, &wanted[..]),
            "{name}"
        );
        if snap > 1 {
            replay_reads(&path, false, &packets);
        }
    }
    let replay = hosts.run(&format!("replay {} --config {config}", folder.path("c")));
    let counts = ["3 passed, 2 dropped\n", "1 denied\n", "1 malformed\n"];
    for count in counts {
        assert!(replay.contains(count), "{count}: {replay}");
    }
}

#[test]
fn drops_in_the_network_stack_are_written_in_both_directions() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let since = SystemTime::now();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let frame = udp(&hosts, CLIENT, 9);
    for (interface, attach, outgoing) in [
        ("eth0", "eth0 --hook tc", false),
        ("eth0:out", "eth0:out", true),
    ] {
        hosts.run(&format!("attach {attach} --rate 1/h --burst 1"));
        let path = folder.path(interface);
        let watcher = Watcher::start_on(&hosts, interface, &["--write", &path]);
        let wire = Raw::open(if outgoing {
            &hosts.server
        } else {
            &hosts.client
        });
        for _ in 0..3 {
            // Sending a packet fails if its own interface drops it.
            let _ = wire.try_send(&frame);
        }
        eventually("two drops are written", || times(&path, &frame) == 2);
        watcher.end();
        let wanted = Written {
            verdict: TC_DROP,
            ..Written::of(&frame, 128, "dropped: over the limit default")
        };
        let wanted = vec![wanted; 2];
        let (link, packets) = read(&path, since, outgoing);
        assert_eq!(
            (link, &packets),
            (DataLink::ETHERNET, &wanted),
            "{interface}"
        );
        replay_reads(&path, outgoing, &packets);
        for (direction, limited) in [("out", outgoing), ("in", !outgoing)] {
            let replay = hosts.run(&format!(
                "replay {path} --rate 1/h --burst 1 --direction {direction}"
            ));
            let counts = if limited {
                "1 passed, 1 dropped\n"
            } else {
                "2 passed, 0 dropped\n"
            };
            assert!(replay.contains(counts), "{direction}: {replay}");
        }
        hosts.run(&format!("detach {interface}"));
    }
}

/// The kernel keeps the payload of a segment that it sends outside of the packet's first buffer.
#[test]
fn bytes_outside_of_the_first_buffer_are_written() {
    need_kernel!();
    if !need::tcx() {
        return;
    }
    let since = SystemTime::now();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    hosts.attach_file(
        "interfaces = [\"eth0:out\"]\ndirection = \"out\"\n[[limit]]\nname = \"data\"\nmatch = { protocol = \"tcp\", length = \"500-\" }\nrate = \"1/h\"\nburst = 1\n",
    );
    let payload: Vec<u8> = (0..1_000_u32).map(|index| (index % 251) as u8).collect();
    let path = folder.path("drops");
    let watcher = Watcher::start_on(
        &hosts,
        "eth0:out",
        &["--write", &path, "--snap", "1536", "-n", "1"],
    );
    let listener = on(&hosts.client, || TcpListener::bind((CLIENT, 9)).unwrap());
    let mut stream = on(&hosts.server, || TcpStream::connect((CLIENT, 9)).unwrap());
    let _accepted = listener.accept().unwrap();
    for _ in 0..2 {
        stream.write_all(&payload).unwrap();
    }
    assert_eq!(watcher.wait().status, 0);
    let (_, packets) = read(&path, since, true);
    let packet = &packets[0];
    assert_eq!(packet.bytes.len(), packet.length as usize);
    assert!(packet.bytes.ends_with(&payload), "{packet:?}");
}

#[test]
fn packets_without_ethernet_header_are_written_as_raw_ip() {
    need_kernel!();
    let since = SystemTime::now();
    let (hosts, folder) = (Hosts::new(), Folder::new());
    let tun = match Tun::new(&hosts.server, "tun0") {
        Ok(tun) if need::tcx() => tun,
        _ => return,
    };
    limiter_tests::command::ip(&hosts.server.namespace, "link set tun0 up");
    hosts.run("attach tun0 --rate 1/h --burst 1");
    let path = folder.path("drops");
    let watcher = Watcher::start_on(&hosts, "tun0", &["--write", &path, "-n", "1"]);
    let mut packet = Vec::new();
    let udp =
        etherparse::PacketBuilder::ipv4([203, 0, 113, 7], [203, 0, 113, 1], 64).udp(40_000, 9);
    udp.write(&mut packet, &[0x5a; 20]).unwrap();
    (0..2).for_each(|_| tun.arrive(&packet));
    assert_eq!(watcher.wait().status, 0);
    let wanted = Written {
        verdict: TC_DROP,
        ..Written::of(&packet, 128, "dropped: over the limit default")
    };
    let (link, packets) = read(&path, since, false);
    assert_eq!((link, &packets[..]), (DataLink::RAW, &[wanted][..]));
    replay_reads(&path, false, &packets);
}
