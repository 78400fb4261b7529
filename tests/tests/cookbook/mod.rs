//! Each recipe of the cookbook works as its text says, on an interface and with packets.

mod packets;

use std::{
    collections::{BTreeSet, HashSet},
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    ops::Deref,
    thread,
    time::{Duration, Instant},
};

use etherparse::PacketBuilder;
use limiter_tests::{
    eventually,
    files::at_driver,
    hosts::on,
    need_kernel,
    packet::Segment,
    raw::Raw,
    recipes::{COOKBOOK, Site, blocks},
};
use limiter_user::cli::PRESETS;
use packets::{
    Expected::{self, Bytes, Drop, Packets, Pass},
    MINECRAFT, RECIPES, SSH, SYN_FLOOD, WEB,
};

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
    /// Prints, checks and attaches a recipe.
    fn new(name: &str) -> Self {
        let setup = Self::prepare();
        let preset = setup.limiter(&format!("limiter preset {name} --interface eth0"));
        preset.expect(0);
        setup
            .folder
            .write("limiter.toml", at_driver(&preset.stdout));
        let check = setup.limiter("limiter config check limiter.toml --strict");
        check.expect(0);
        setup
            .limiter("limiter attach --config limiter.toml")
            .expect(0);
        setup
    }

    /// A host that limits nothing.
    fn prepare() -> Self {
        let site = Site::unlisted();
        let behind = Raw::open(&site.hosts.server);
        Self { site, behind }
    }

    fn frame(&self, kind: &str, source: &str, port: u16, payload: &[u8]) -> Vec<u8> {
        let (kind, from) = kind.split_once(':').unwrap_or((kind, "40000"));
        let ends = self.ends(source, from.parse().unwrap(), port);
        match kind {
            "syn" => ends.tcp(Segment::Syn),
            "syn-ack" => ends.tcp(Segment::SynAck),
            "data" => ends.tcp(Segment::Data),
            "udp" => ends.udp(payload),
            "fragment" => {
                let mut frame = ends.udp(&[0x5a; 64]);
                // Sets the fragment offset in the IPv4 header to byte 1,480 of the datagram.
                frame[20..22].copy_from_slice(&(1_480_u16 / 8).to_be_bytes());
                frame
            }
            "ping" => self.icmpv6(source, 64, 128),
            "too-big" => self.icmpv6(source, 64, 2),
            "neighbour" => self.icmpv6(source, 255, 135),
            _ => panic!("unknown kind of packet: {kind}"),
        }
    }

    fn icmpv6(&self, source: &str, hop_limit: u8, kind: u8) -> Vec<u8> {
        let ends = self.ends(source, 0, 0);
        let (IpAddr::V6(from), IpAddr::V6(destination)) = (ends.from.ip(), ends.to.ip()) else {
            panic!("IPv6: {source}")
        };
        let mut bytes = Vec::new();
        PacketBuilder::ethernet2(ends.macs.0, ends.macs.1)
            .ipv6(from.octets(), destination.octets(), hop_limit)
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
        // Two digits fit into ports, addresses and prefixes.
        let numbers = if line.contains('*') { 10..70 } else { 0..1 };
        let frames = numbers.map(|number| {
            let line = line.replace('*', &number.to_string());
            let words: Vec<_> = line.split(' ').collect();
            let port = words.get(2).map_or(1, |port| port.parse().unwrap());
            let payload = payload(words.get(3).unwrap_or(&"1"));
            self.frame(words[0], words[1], port, &payload)
        });
        let frames: Vec<_> = frames.collect();
        // In bytes, the last packet may not fit.
        let (burst, cost, slack) = match expected {
            Pass(count) => return assert_eq!(self.send(&frames, count).0, count, "{line}"),
            Drop => return assert_eq!(self.send(&frames, 10).0, 0, "{line}"),
            Packets(_, burst) => (burst, 1.0, 0.0),
            Bytes(_, burst) => (burst, frames[0].len() as f64, frames[0].len() as f64),
        };
        let count = (3.0 * burst / cost) as usize + 50;
        let (came, time) = self.send(&frames, count);
        let refilled = match expected {
            Packets(rate, _) | Bytes(rate, _) => rate * time,
            _ => 0.0,
        };
        let allowed = burst - slack..=burst + refilled + slack;
        let came = came as f64 * cost;
        assert!(allowed.contains(&came), "{line}: {came}, not {allowed:?}");
    }
}

/// The payload that a line describes: `20`, `x01ff`, `x01ff+20`.
fn payload(written: &str) -> Vec<u8> {
    let (hex, length) = match written.strip_prefix('x') {
        None => ("", written),
        Some(hex) => hex.split_once('+').unwrap_or((hex, "0")),
    };
    let byte = |index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap();
    let mut bytes: Vec<_> = (0..hex.len()).step_by(2).map(byte).collect();
    bytes.resize(bytes.len().max(length.parse().unwrap()), 0x5a);
    bytes
}

/// Panics unless all written data arrives.
fn goes_on(connection: &str, (from, receiver): &mut (TcpStream, TcpStream)) {
    receiver
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let (data, mut received) = (vec![0x5a; 1 << 20], vec![0; 1 << 20]);
    thread::scope(|scope| {
        scope.spawn(|| from.write_all(&data).unwrap());
        receiver.read_exact(&mut received).expect(connection);
    });
}

#[test]
fn every_recipe_has_a_test() {
    let written: BTreeSet<_> = PRESETS.iter().map(|preset| preset.0).collect();
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
    for (heading, port) in [(WEB, 80), (SSH, 22), (SYN_FLOOD, 80), (MINECRAFT, 25_565)] {
        let setup = Setup::new(heading);
        let address = SocketAddr::new("198.18.1.1".parse().unwrap(), port);
        let listener = on(&setup.hosts.server, || TcpListener::bind(address)).unwrap();
        let client = on(&setup.hosts.client, || TcpStream::connect(address)).unwrap();
        let mut session = (client, listener.accept().unwrap().0);
        let flood = ["syn", "data"].map(|kind| setup.frame(kind, "198.18.1.2", port, &[]));
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
fn recipes_bound_what_comes_in_the_name_of_a_connection() {
    need_kernel!();
    for (heading, text) in PRESETS {
        if !text.contains("\"established\"") {
            continue;
        }
        let setup = Setup::new(heading);
        let address = SocketAddr::new("198.18.1.1".parse().unwrap(), 9);
        let listener = on(&setup.hosts.server, || TcpListener::bind(address)).unwrap();
        let client = on(&setup.hosts.client, || TcpStream::connect(address)).unwrap();
        let mut session = (client, listener.accept().unwrap().0);
        // A download at full speed is not affected.
        let before = setup.hosts.status()["dropped"]["packets"].clone();
        goes_on(heading, &mut session);
        assert_eq!(
            setup.hosts.status()["dropped"]["packets"],
            before,
            "{heading}"
        );
        setup
            .limiter("limiter set eth0 --limit connections --rate 1/h --burst 100")
            .expect(0);
        let from = session.0.local_addr().unwrap().port();
        let mut ends = setup.ends("198.18.1.2", from, 9);
        ends.to = address;
        let flood = ends.tcp(Segment::Data);
        let passed = setup.send(&[flood], 1_000).0;
        assert!(passed <= 100, "{heading}: {passed}");
    }
}

/// The presets of one service. Those against a kind of attack, and for a resolver, leave other packets alone.
const SERVICES: [(&str, u16); 8] = [
    (WEB, 443),
    ("quic", 443),
    ("dns-server", 53),
    (SSH, 22),
    ("source-engine", 27_015),
    (MINECRAFT, 19_132),
    ("voip", 5_060),
    ("wireguard", 51_820),
];

#[test]
fn recipes_of_services_leave_no_packet_without_a_limit() {
    need_kernel!();
    for (heading, _) in SERVICES {
        let setup = Setup::new(heading);
        let ports = [
            1, 22, 53, 80, 443, 5_060, 8_080, 10_000, 19_132, 25_565, 27_015, 51_820,
        ];
        let mut frames = vec![setup.icmpv6("2001:db8:7::1", 64, 128)];
        for port in ports {
            for kind in ["syn", "data", "udp", "fragment"] {
                frames.push(setup.frame(kind, "10.7.0.1", port, &[0x5a; 20]));
            }
        }
        setup.send(&frames, frames.len());
        let status = setup.hosts.status();
        assert_eq!(
            status["passes"]["unlimited"]["packets"], 0,
            "{heading}: {status}"
        );
    }
}

#[test]
fn recipes_of_services_bound_a_flood_of_made_up_sources() {
    need_kernel!();
    const SENT: u32 = 20_000;
    for (heading, port) in SERVICES {
        // Resolvers of the whole world ask an authoritative server.
        if heading == "dns-server" {
            continue;
        }
        let setup = Setup::new(heading);
        let frames: Vec<_> = (0..SENT)
            .map(|number| {
                let source = Ipv4Addr::from(0x0a00_0000 + number * 257).to_string();
                setup.frame("udp", &source, port, &[0x5a; 20])
            })
            .collect();
        let (passed, time) = setup.send(&frames, frames.len());
        let (rate, burst) = match heading {
            WEB | "quic" => (2_000.0, 8_000.0),
            _ => (100.0, 1_000.0),
        };
        let most = burst + rate * time + 100.0;
        assert!(
            (passed as f64) < most,
            "{heading}: {passed} of {SENT}, in {time:.1} s"
        );
        assert!(passed > 100, "{heading}: {passed}");
    }
}

#[test]
fn cookbook_commands_succeed_in_order() {
    need_kernel!();
    let setup = Setup::prepare();
    setup
        .folder
        .write("blocked.txt", "10.9.0.0/16  # strangers\n");
    for (heading, block) in blocks("sh") {
        for line in block.lines() {
            let line = line.split('#').next().unwrap().trim();
            let line = line.trim_start_matches("sudo ");
            let (line, file) = line.split_once(" > ").unwrap_or((line, ""));
            let outcome = setup.limiter(line);
            outcome.expect(0);
            if !file.is_empty() {
                setup.folder.write(file, at_driver(&outcome.stdout));
            }
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
