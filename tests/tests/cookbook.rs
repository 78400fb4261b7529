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
    hosts::{CLIENT, Hosts, SERVER, on},
    need_kernel,
    packet::Segment,
    raw::Raw,
    recipes::{COOKBOOK, Site, blocks, recipe},
};

const SILENCE: Duration = Duration::from_millis(50);

/// Maximum time in which passed packets arrive.
const ARRIVAL: Duration = Duration::from_secs(1);
/// A hundred times the usual duration. Only a failed test waits that long.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// The packets and bytes that arrived, and the time.
struct Arrived {
    packets: usize,
    bytes: usize,
    /// Time from before the first frame was sent until after the last verdict.
    time: Duration,
}

impl Setup {
    /// Checks and attaches a recipe.
    fn new(site: Site, heading: &str) -> Self {
        let setup = Self::prepare(site, &recipe(heading));
        setup.limiter("limiter config check limiter.toml").expect(0);
        setup
            .limiter("limiter attach --config limiter.toml")
            .expect(0);
        setup
    }

    /// Writes `text` to `limiter.toml`.
    fn prepare(site: Site, text: &str) -> Self {
        site.folder.write("limiter.toml", text);
        let behind = Raw::open(&site.hosts.server);
        Self { site, behind }
    }

    fn udp(&self, source: &str, port: u16) -> Vec<u8> {
        self.ends(source, 40_000, port).udp(b"x")
    }

    /// A segment of a connection that does not exist.
    fn data(&self, source: &str, port: u16) -> Vec<u8> {
        self.ends(source, 40_000, port).tcp(Segment::Data)
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

    /// The frames that arrive behind the server, of `passed` packets. Some packets are for the server itself.
    fn arrived(&self, passed: u64) -> Vec<Vec<u8>> {
        let mut came = self.behind.receive(SILENCE);
        let began = Instant::now();
        // A busy machine forwards packets long after limiter has counted them.
        while (came.len() as u64) < passed && began.elapsed() < ARRIVAL {
            came.extend(self.behind.receive(SILENCE));
        }
        came
    }

    /// Sends `frames` in turn, `times` times.
    fn send(&self, frames: &[Vec<u8>], times: usize) -> Arrived {
        let sent: HashSet<_> = frames.iter().collect();
        let [seen, passed] = self.counted();
        let begin = Instant::now();
        for _ in 0..times {
            frames.iter().for_each(|frame| self.wire.send(frame));
        }
        let all = seen + (frames.len() * times) as u64;
        eventually("all frames are counted", || self.counted()[0] >= all);
        let time = begin.elapsed();
        let came = self.arrived(self.counted()[1] - passed);
        let came: Vec<_> = came.iter().filter(|frame| sent.contains(frame)).collect();
        Arrived {
            packets: came.len(),
            bytes: came.iter().map(|frame| frame.len()).sum(),
            time,
        }
    }

    /// Panics unless all frames pass.
    fn passes(&self, what: &str, frames: &[Vec<u8>], times: usize) {
        assert_eq!(
            self.send(frames, times).packets,
            frames.len() * times,
            "{what}"
        );
    }

    /// Panics unless all frames are dropped.
    fn denies(&self, what: &str, frame: Vec<u8>) {
        assert_eq!(self.send(&[frame], 10).packets, 0, "{what}");
    }

    /// Panics unless these frames get `burst` plus `rate` packets per second. Their buckets must be full.
    fn holds(&self, what: &str, frames: &[Vec<u8>], times: usize, (rate, burst): (f64, f64)) {
        let came = self.send(frames, times);
        agrees(
            what,
            came.packets as f64,
            burst,
            rate * came.time.as_secs_f64(),
        );
        assert!(
            frames.len() * times > 2 * burst as usize,
            "{what}: too few packets were sent"
        );
    }
}

/// Panics unless `came` is `burst` plus at most `refilled`.
fn agrees(what: &str, came: f64, burst: f64, refilled: f64) {
    let most = burst + refilled;
    assert!(
        came >= burst,
        "{what}: {came} arrived, the burst is {burst}"
    );
    assert!(came <= most, "{what}: {came} arrived, {most} are allowed");
}

/// Both ends of a connection to `port` of the server.
fn session(hosts: &Hosts, server: IpAddr, port: u16) -> (TcpStream, TcpStream) {
    let address = SocketAddr::new(server, port);
    let listener = on(&hosts.server, || TcpListener::bind(address)).unwrap();
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let client = on(&hosts.client, connect).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Panics unless all written data arrives.
fn goes_on(what: &str, (from, to): &mut (TcpStream, TcpStream)) {
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    let (data, mut received) = (vec![0x5a; 1 << 20], vec![0; 1 << 20]);
    thread::scope(|scope| {
        scope.spawn(|| from.write_all(&data).unwrap());
        to.read_exact(&mut received).expect(what);
    });
}

#[test]
fn every_recipe_has_a_test() {
    let written: BTreeSet<_> = blocks("toml").into_iter().map(|block| block.0).collect();
    let tried = [WEB, DNS, GAME, SSH, IPV6].into();
    assert_eq!(written, tried);
    assert!(COOKBOOK.contains("\n## Rate and burst\n"));
    for (heading, text) in blocks("sh") {
        assert!(
            [INTRODUCTION, LISTS].contains(&heading),
            "{heading}: {text}"
        );
    }
}

const WEB: &str = "Web front end";
const DNS: &str = "DNS resolver";
const GAME: &str = "Game server";
const SSH: &str = "SSH bastion";
const IPV6: &str = "IPv6";
const INTRODUCTION: &str = "";
const LISTS: &str = "Lists";

#[test]
fn web_recipe_limits_new_connections() {
    need_kernel!();
    let setup = Setup::new(Site::unlisted(), WEB);
    for (source, port) in [("10.0.80.1", 80), ("10.0.43.1", 443)] {
        setup.holds(source, &[setup.syn(source, port)], 300, (20.0, 100.0));
    }
    let network: Vec<_> = (0..30)
        .map(|i| setup.syn(&format!("10.1.0.{i}"), 443))
        .collect();
    setup.holds("a /24", &network, 100, (200.0, 1_000.0));
    let network: Vec<_> = (0..30)
        .map(|i| setup.syn(&format!("2001:db8:5:{i}::1"), 443))
        .collect();
    setup.holds("a /48", &network, 100, (200.0, 1_000.0));
    setup.holds(
        "TCP",
        &[setup.data("10.2.0.1", 443)],
        9_000,
        (2_000.0, 4_000.0),
    );

    let quic = setup.ends("10.3.0.1", 40_000, 443).udp(&[0x5a; 1_400]);
    let came = setup.send(std::slice::from_ref(&quic), 2_000);
    let burst = f64::from(1 << 20) - quic.len() as f64;
    let refilled = 20e6 / 8.0 * came.time.as_secs_f64() + quic.len() as f64;
    agrees("QUIC", came.bytes as f64, burst, refilled);

    setup.passes("allowed", &[setup.syn("192.0.2.7", 443)], 300);
    setup.passes("no limit matches", &[setup.udp("10.4.0.1", 53)], 300);
}

#[test]
fn web_recipe_exempts_established_connections() {
    need_kernel!();
    let setup = Setup::new(Site::unlisted(), WEB);
    let server = "198.18.1.1".parse().unwrap();
    let mut session = session(&setup.hosts, server, 80);
    let flood = [setup.syn("198.18.1.2", 80), setup.data("198.18.1.2", 80)];
    let came = setup.send(&flood, 5_000);
    assert!(came.packets < 10_000, "over the limit");
    goes_on("the connection", &mut session);

    setup.limiter("limiter deny add eth0 198.18.1.2").expect(0);
    session.0.write_all(b"denied").unwrap();
    session
        .1
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    assert!(session.1.read(&mut [0; 16]).is_err(), "denied");
}

#[test]
fn dns_recipe_limits_queries_per_source() {
    need_kernel!();
    let setup = Setup::new(Site::unlisted(), DNS);
    for (stranger, own) in [
        ("10.0.0.1", "192.0.2.1"),
        ("2001:db8:2::1", "2001:db8:1::1"),
    ] {
        setup.holds(stranger, &[setup.udp(stranger, 53)], 200, (20.0, 40.0));
        setup.holds(own, &[setup.udp(own, 53)], 5_000, (500.0, 2_000.0));
    }
    setup.holds("over TCP", &[setup.data("10.0.0.2", 53)], 200, (20.0, 40.0));
    let answer = setup.ends("10.0.0.3", 53, 40_000).udp(b"answer");
    setup.passes("answers to its own questions", &[answer], 300);

    let fragment = |source: &str| {
        let mut frame = setup.ends(source, 53, 40_000).udp(&[0x5a; 64]);
        // Sets the fragment offset in the IPv4 header to byte 1,480 of the datagram.
        frame[20..22].copy_from_slice(&(1_480_u16 / 8).to_be_bytes());
        frame
    };
    setup.holds(
        "later fragments",
        &[fragment("10.0.0.4")],
        100,
        (10.0, 20.0),
    );
    setup.passes("of the own network", &[fragment("192.0.2.4")], 300);
}

#[test]
fn game_recipe_limits_players_and_networks() {
    need_kernel!();
    let setup = Setup::new(Site::unlisted(), GAME);
    for (player, port) in [("10.0.15.1", 27_015), ("10.0.30.1", 27_030)] {
        setup.holds(player, &[setup.udp(player, port)], 1_000, (200.0, 400.0));
    }
    let network: Vec<_> = (0..60)
        .map(|i| setup.udp(&format!("10.1.0.{i}"), 27_015))
        .collect();
    setup.holds("a /24", &network, 300, (4_000.0, 8_000.0));

    let network: Vec<_> = (0..60)
        .map(|i| setup.udp(&format!("2001:db8:1:{i}::1"), 27_015))
        .collect();
    setup.holds("a /48", &network, 300, (4_000.0, 8_000.0));

    let came = setup.send(&[setup.udp("10.2.0.1", 27_031)], 200);
    // A whole burst passes in each window, and windows may have begun meanwhile.
    let windows = (came.time.as_secs_f64() / 10.0).ceil();
    agrees("queries", came.packets as f64, 30.0, 30.0 * windows);

    let large = setup.ends("10.3.0.1", 40_000, 9).udp(&[0x5a; 1_000]);
    let came = setup.send(std::slice::from_ref(&large), 500);
    let burst = f64::from(128 << 10) - large.len() as f64;
    let refilled = 2e6 / 8.0 * came.time.as_secs_f64() + large.len() as f64;
    agrees("volume", came.bytes as f64, burst, refilled);
    setup.passes("TCP", &[setup.data("10.3.0.1", 27_015)], 300);
}

#[test]
fn ssh_recipe_limits_connection_attempts() {
    need_kernel!();
    let setup = Setup::new(Site::of(Hosts::new()), SSH);
    let syn = |source| setup.syn(source, 22);
    setup.holds("SYN", &[syn("10.0.0.1")], 50, (5.0 / 60.0, 5.0));
    let check = setup.hosts.json(&["check", "eth0", "10.0.0.1", "--json"]);
    let retry = check["limits"][0]["retry_after_seconds"].as_f64().unwrap();
    assert!(
        retry > 0.0 && retry <= 12.0,
        "one every twelve seconds: {check}"
    );
    setup.holds(
        "the rest",
        &[setup.udp("10.0.0.2", 9)],
        4_000,
        (500.0, 1_000.0),
    );
    // The smaller limit applies only to packets that open a connection.
    setup.holds(
        "data",
        &[setup.data("10.0.0.3", 22)],
        4_000,
        (500.0, 1_000.0),
    );
    setup.passes("the office", &[syn("198.51.100.7")], 2_500);
    setup.passes("one host", &[syn("203.0.113.7")], 2_500);
    setup.denies("its network", syn("203.0.113.8"));

    let mut session = session(&setup.hosts, SERVER, 22);
    let client = CLIENT.to_string();
    let flood = [syn(&client), setup.udp(&client, 9)];
    assert!(setup.send(&flood, 2_000).packets < 4_000, "over the limit");
    goes_on("an open session", &mut session);
}

#[test]
fn ipv6_recipe_limits_subnets_and_sites() {
    need_kernel!();
    let setup = Setup::new(Site::unlisted(), IPV6);
    let subnet: Vec<_> = (0..50)
        .map(|i| setup.udp(&format!("2001:db8:1:1::{i}"), 9))
        .collect();
    setup.holds("a /64", &subnet, 100, (1_000.0, 2_000.0));
    let neighbour = setup.icmpv6("2001:db8:1:1::1", 255, 135);
    setup.holds("neighbour discovery", &[neighbour], 500, (100.0, 200.0));

    let site: Vec<_> = (0..20)
        .map(|i| setup.udp(&format!("2001:db8:2:{i}::1"), 9))
        .collect();
    setup.holds("a /48", &site, 1_000, (4_000.0, 8_000.0));
    let ping = setup.icmpv6("2001:db8:3::1", 64, 128);
    setup.holds("pings", &[ping], 100, (10.0, 20.0));
    setup.passes("IPv4", &[setup.udp("10.0.0.1", 9)], 300);
}

#[test]
fn cookbook_commands_succeed_in_order() {
    need_kernel!();
    let setup = Setup::prepare(Site::unlisted(), &recipe(DNS));
    setup
        .folder
        .write("blocked.txt", "10.9.0.0/16  # strangers\n");
    for (heading, block) in blocks("sh") {
        for line in block.lines() {
            let line = line.split('#').next().unwrap().trim();
            setup.limiter(line.trim_start_matches("sudo ")).expect(0);
        }
        if heading == INTRODUCTION {
            setup.passes("before", &[setup.udp("10.9.0.1", 9)], 10);
        }
    }
    let list = |line: &str| setup.limiter(line).stdout;
    assert_eq!(list("limiter deny list eth0").trim(), "10.9.0.0/16");
    assert!(list("limiter tier list eth0 own").contains("192.0.2.128/25"));
    setup.denies("in force at once", setup.udp("10.9.0.1", 9));

    setup.limiter("limiter reload eth0").expect(0);
    setup.passes("the file's list is back", &[setup.udp("10.9.0.1", 9)], 10);
    assert!(!list("limiter tier list eth0 own").contains("192.0.2.128/25"));
}
