//! Each recipe of the cookbook works as its text says, on an interface and with packets.

use std::{
    collections::{BTreeSet, HashSet},
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    ops::Deref,
    thread,
    time::{Duration, Instant},
};

use etherparse::PacketBuilder;
use limiter_tests::{
    eventually,
    hosts::on,
    need_kernel,
    packet::Segment,
    raw::Raw,
    recipes::{COOKBOOK, Site, blocks, recipe},
};

/// The expected verdict on packets. Buckets are full at first.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// Packets per second, and a burst of packets.
    Packets(f64, f64),
    /// Bytes per second, and a burst of bytes.
    Bytes(f64, f64),
    /// Packets per window, and the window's seconds.
    Window(f64, f64),
    /// This number of packets passes.
    Pass(usize),
    Drop,
}

use Expected::{Bytes, Drop, Packets, Pass, Window};

const WEB: &str = "Web front end";
const DNS: &str = "DNS resolver";
const SSH: &str = "SSH bastion";

/// Packets for each recipe: kind, source, port, payload. `*` in a source stands for 60 different numbers.
const RECIPES: [(&str, &[(&str, Expected)]); 5] = [
    (
        WEB,
        &[
            ("syn 10.0.80.1 80", Packets(20.0, 100.0)),
            ("syn 10.0.43.1 443", Packets(20.0, 100.0)),
            ("syn 10.1.0.* 443", Packets(200.0, 1_000.0)),
            ("syn 2001:db8:5:*::1 443", Packets(200.0, 1_000.0)),
            ("data 10.2.0.1 443", Packets(2_000.0, 4_000.0)),
            ("udp 10.3.0.1 443 1400", Bytes(20e6 / 8.0, 1_048_576.0)),
            ("syn 192.0.2.7 443", Pass(300)),
            ("udp 10.4.0.1 53", Pass(300)),
        ],
    ),
    (
        DNS,
        &[
            ("udp 10.0.0.1 53", Packets(20.0, 40.0)),
            ("udp 2001:db8:2::1 53", Packets(20.0, 40.0)),
            ("udp 192.0.2.1 53", Packets(500.0, 2_000.0)),
            ("udp 2001:db8:1::1 53", Packets(500.0, 2_000.0)),
            ("data 10.0.0.2 53", Packets(20.0, 40.0)),
            ("answer 10.0.0.3 53", Pass(300)),
            ("fragment 10.0.0.4 53", Packets(10.0, 20.0)),
            ("fragment 192.0.2.4 53", Pass(300)),
        ],
    ),
    (
        "Game server",
        &[
            ("udp 10.0.15.1 27015", Packets(200.0, 400.0)),
            ("udp 10.0.30.1 27030", Packets(200.0, 400.0)),
            ("udp 10.1.0.* 27015", Packets(4_000.0, 8_000.0)),
            ("udp 2001:db8:1:*::1 27015", Packets(4_000.0, 8_000.0)),
            ("udp 10.2.0.1 27031", Window(30.0, 10.0)),
            ("udp 10.3.0.1 9 1000", Bytes(2e6 / 8.0, 131_072.0)),
            ("data 10.3.0.1 27015", Pass(300)),
        ],
    ),
    (
        SSH,
        &[
            ("syn 10.0.0.1 22", Packets(5.0 / 60.0, 5.0)),
            ("udp 10.0.0.2 9", Packets(500.0, 1_000.0)),
            // The smaller limit applies only to packets that open a connection.
            ("data 10.0.0.3 22", Packets(500.0, 1_000.0)),
            ("syn 198.51.100.7 22", Pass(2_500)),
            ("syn 203.0.113.7 22", Pass(2_500)),
            ("syn 203.0.113.8 22", Drop),
        ],
    ),
    (
        "IPv6",
        &[
            ("udp 2001:db8:1:1::* 9", Packets(1_000.0, 2_000.0)),
            ("neighbour 2001:db8:1:1::1", Packets(100.0, 200.0)),
            ("udp 2001:db8:2:*::1 9", Packets(4_000.0, 8_000.0)),
            ("ping 2001:db8:3::1", Packets(10.0, 20.0)),
            ("udp 10.0.0.1 9", Pass(300)),
        ],
    ),
];

/// A recipe that is attached to the server's `eth0`.
struct Setup {
    site: Site,
    behind: Raw,
}

impl Deref for Setup {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Setup {
    /// Checks and attaches a recipe.
    fn new(heading: &str) -> Self {
        let setup = Self::prepare(&recipe(heading));
        setup.limiter("limiter config check limiter.toml").expect(0);
        setup
            .limiter("limiter attach --config limiter.toml")
            .expect(0);
        setup
    }

    /// Writes `text` to `limiter.toml`.
    fn prepare(text: &str) -> Self {
        let site = Site::unlisted();
        site.folder.write("limiter.toml", text);
        let behind = Raw::open(&site.hosts.server);
        Self { site, behind }
    }

    fn frame(&self, kind: &str, source: &str, port: u16, payload: usize) -> Vec<u8> {
        let ends = self.ends(source, 40_000, port);
        match kind {
            "syn" => ends.tcp(Segment::Syn),
            "data" => ends.tcp(Segment::Data),
            "answer" => ends.at(port, 40_000).udp(b"answer"),
            "fragment" => {
                let mut frame = ends.udp(&[0x5a; 64]);
                // Sets the fragment offset in the IPv4 header to byte 1,480 of the datagram.
                frame[20..22].copy_from_slice(&(1_480_u16 / 8).to_be_bytes());
                frame
            }
            "ping" => self.icmpv6(source, 64, 128),
            "neighbour" => self.icmpv6(source, 255, 135),
            _ => ends.udp(&vec![0x5a; payload]),
        }
    }

    fn icmpv6(&self, source: &str, hop_limit: u8, kind: u8) -> Vec<u8> {
        let ends = self.ends(source, 0, 0);
        let (IpAddr::V6(from), IpAddr::V6(to)) = (ends.from.ip(), ends.to.ip()) else {
            panic!("IPv6: {source}")
        };
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2(ends.macs.0, ends.macs.1)
            .ipv6(from.octets(), to.octets(), hop_limit)
            .icmpv6_raw(kind, 0, [0; 4])
            .write(&mut bytes, &[0; 16])
            .unwrap();
        bytes
    }

    /// Sends `frames` in turn, `count` in total. Returns how many pass, and the time from before the first frame until
    /// after the last verdict.
    fn send(&self, frames: &[Vec<u8>], count: usize) -> (usize, f64) {
        let [seen, passed] = self.counted();
        let begin = Instant::now();
        let sent = frames.iter().cycle().take(count);
        sent.for_each(|frame| self.wire.send(frame));
        let all = seen + count as u64;
        eventually("all frames are counted", || self.counted()[0] >= all);
        let time = begin.elapsed().as_secs_f64();
        // A busy machine forwards packets long after limiter has counted them. Some packets are for the server itself.
        let passed = (self.counted()[1] - passed) as usize;
        let mut came = Vec::new();
        for _ in 0..20 {
            came.extend(self.behind.receive(Duration::from_millis(50)));
            if came.len() >= passed {
                break;
            }
        }
        let frames: HashSet<_> = frames.iter().collect();
        came.retain(|frame| frames.contains(frame));
        (came.len(), time)
    }

    /// Sends the packets that `line` describes. Panics unless as many pass as expected.
    fn expect(&self, line: &str, expected: Expected) {
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words.get(at).map_or(1, |word| word.parse().unwrap());
        let (port, payload) = (number(2), usize::from(number(3)));
        let sources = if line.contains('*') { 60 } else { 1 };
        let source = |i: usize| words[1].replace('*', &i.to_string());
        let frames = (0..sources).map(|i| self.frame(words[0], &source(i), port, payload));
        let frames: Vec<_> = frames.collect();
        // In bytes, the last packet may not fit.
        let (burst, cost, slack) = match expected {
            Pass(count) => return assert_eq!(self.send(&frames, count).0, count, "{line}"),
            Drop => return assert_eq!(self.send(&frames, 10).0, 0, "{line}"),
            Packets(_, burst) | Window(burst, _) => (burst, 1.0, 0.0),
            Bytes(_, burst) => (burst, frames[0].len() as f64, frames[0].len() as f64),
        };
        let count = (3.0 * burst / cost) as usize + 50;
        let (came, time) = self.send(&frames, count);
        let refilled = match expected {
            // A whole burst passes in each window, and windows may have begun meanwhile.
            Window(_, seconds) => burst * (time / seconds).ceil(),
            Packets(rate, _) | Bytes(rate, _) => rate * time,
            _ => 0.0,
        };
        let allowed = burst - slack..=burst + refilled + slack;
        let came = came as f64 * cost;
        assert!(allowed.contains(&came), "{line}: {came}, not {allowed:?}");
    }
}

/// Panics unless all written data arrives.
fn goes_on(what: &str, (from, to): &mut (TcpStream, TcpStream)) {
    to.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let (data, mut received) = (vec![0x5a; 1 << 20], vec![0; 1 << 20]);
    thread::scope(|scope| {
        scope.spawn(|| from.write_all(&data).unwrap());
        to.read_exact(&mut received).expect(what);
    });
}

#[test]
fn every_recipe_has_a_test() {
    let written: BTreeSet<_> = blocks("toml").into_iter().map(|block| block.0).collect();
    assert_eq!(written, RECIPES.map(|recipe| recipe.0).into());
    assert!(COOKBOOK.contains("\n## Rate and burst\n"));
    for (heading, text) in blocks("sh") {
        assert!(["", "Lists"].contains(&heading), "{heading}: {text}");
    }
}

#[test]
fn recipes_limit_packets_as_their_text_says() {
    need_kernel!();
    for (heading, lines) in RECIPES {
        let setup = Setup::new(heading);
        for (line, expected) in lines {
            setup.expect(line, *expected);
        }
    }
}

#[test]
fn recipes_exempt_established_connections_unless_denied() {
    need_kernel!();
    for (heading, port) in [(WEB, 80), (SSH, 22)] {
        let setup = Setup::new(heading);
        let address = SocketAddr::new("198.18.1.1".parse().unwrap(), port);
        let listener = on(&setup.hosts.server, || TcpListener::bind(address)).unwrap();
        let client = on(&setup.hosts.client, || TcpStream::connect(address)).unwrap();
        let mut session = (client, listener.accept().unwrap().0);
        let flood = ["syn", "data"].map(|kind| setup.frame(kind, "198.18.1.2", port, 0));
        assert!(setup.send(&flood, 10_000).0 < 10_000, "over the limit");
        goes_on(heading, &mut session);

        setup.limiter("limiter deny add eth0 198.18.1.2").expect(0);
        session.0.write_all(b"denied").unwrap();
        let patience = Duration::from_millis(300);
        session.1.set_read_timeout(Some(patience)).unwrap();
        assert!(session.1.read(&mut [0; 16]).is_err(), "denied: {heading}");
    }
}

#[test]
fn cookbook_commands_succeed_in_order() {
    need_kernel!();
    let setup = Setup::prepare(&recipe(DNS));
    setup
        .folder
        .write("blocked.txt", "10.9.0.0/16  # strangers\n");
    for (heading, block) in blocks("sh") {
        for line in block.lines() {
            let line = line.split('#').next().unwrap().trim();
            setup.limiter(line.trim_start_matches("sudo ")).expect(0);
        }
        if heading.is_empty() {
            setup.expect("udp 10.9.0.1 9", Pass(10));
        }
    }
    let list = |line: &str| setup.limiter(line).stdout;
    assert_eq!(list("limiter deny list eth0").trim(), "10.9.0.0/16");
    assert!(list("limiter tier list eth0 own").contains("192.0.2.128/25"));
    setup.expect("udp 10.9.0.1 9", Drop);

    setup.limiter("limiter reload eth0").expect(0);
    setup.expect("udp 10.9.0.1 9", Pass(10));
    assert!(!list("limiter tier list eth0 own").contains("192.0.2.128/25"));
}
