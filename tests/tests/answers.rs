//! The program answers only SYNs that the host's own stack would answer: each frame goes to a host with limiter and to
//! its twin without, and what the twin leaves without an answer, limiter does too.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, TcpListener},
    process::Command,
    thread,
    time::Duration,
};

use etherparse::PacketBuilder;
use limiter_tests::{
    eventually,
    hosts::{Hosts, on},
    need_kernel,
    newcomers::prepare_wire,
    number,
    raw::Raw,
};

const PORT: u16 = 443;
/// Source port of the first frame.
const FIRST: u16 = 20_000;
const SILENCE: Duration = Duration::from_millis(300);
const SETTINGS: &str = "interfaces = \"eth0\"\nsecond_chance = false\nnew_sources = \"1/h\"\nnew_sources_burst = 4\n\
    [[limit]]\nname = \"one\"\nrate = \"1/h\"\nburst = 10\nproof = \"syn-cookie\"\n";

/// Addresses of both hosts, a second network of the server, and a route to everywhere behind the client.
const ADDRESSES: &str = "link set lo up
link add eth1 type veth peer name eth2
link set eth2 up
address add 198.18.0.1/24 broadcast + dev eth1
address add 2001:db8:9::1/64 dev eth1 nodad
link set eth1 up
address replace 192.0.2.1/24 broadcast + dev eth0
address add fe80::1/64 dev eth0 nodad
neigh add fe80::2 lladdr CLIENT dev eth0
neigh add 198.18.0.7 lladdr 02:00:00:00:00:07 dev eth1
neigh add 2001:db8:9::7 lladdr 02:00:00:00:00:07 dev eth1
";
const DEFAULT: &str = "route add default via 192.0.2.2
route add default via 2001:db8::2
";

/// A way in which a frame is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// The sender's hardware address is one of a group.
    Sender,
    /// The checksum of the IPv4 header.
    Ip,
    /// The checksum of the TCP segment.
    Tcp,
}

/// Sources and destinations of SYNs.
const PAIRS: &[(&str, &str)] = &[
    ("198.51.100.5", "192.0.2.1"),
    // To addresses of the host, of others, of groups and of no one.
    ("198.51.100.6", "198.18.0.1"),
    ("198.51.100.7", "192.0.2.77"),
    ("198.51.100.8", "203.0.113.9"),
    ("198.51.100.9", "192.0.2.255"),
    ("198.51.100.10", "192.0.2.0"),
    ("198.51.100.11", "198.18.0.255"),
    ("198.51.100.12", "255.255.255.255"),
    ("198.51.100.13", "224.0.0.1"),
    ("198.51.100.14", "239.1.2.3"),
    ("198.51.100.15", "127.0.0.1"),
    ("198.51.100.16", "0.0.0.0"),
    ("198.51.100.17", "198.18.0.2"),
    // From them.
    ("192.0.2.1", "192.0.2.1"),
    ("198.18.0.1", "192.0.2.1"),
    ("127.0.0.1", "192.0.2.1"),
    ("127.9.9.9", "192.0.2.1"),
    ("224.0.0.5", "192.0.2.1"),
    ("255.255.255.255", "192.0.2.1"),
    ("0.0.0.0", "192.0.2.1"),
    ("0.1.2.3", "192.0.2.1"),
    ("192.0.2.255", "192.0.2.1"),
    ("198.18.0.255", "192.0.2.1"),
    // From another interface's network.
    ("198.18.0.7", "192.0.2.1"),
    // Version 6.
    ("2001:db8:7::5", "2001:db8::1"),
    ("2001:db8:7::6", "2001:db8:9::1"),
    ("fe80::2", "fe80::1"),
    ("2001:db8:7::7", "2001:db8::77"),
    ("2001:db8:7::8", "2001:db8:5::9"),
    ("2001:db8:7::9", "2001:db8::"),
    ("2001:db8:7::a", "fe80::77"),
    ("fe80::2", "fe80::77"),
    ("2001:db8:7::b", "ff02::1"),
    ("2001:db8:7::c", "::1"),
    ("2001:db8:7::d", "::"),
    ("2001:db8:7::e", "::ffff:192.0.2.1"),
    ("::", "2001:db8::1"),
    ("::1", "2001:db8::1"),
    ("ff02::1", "2001:db8::1"),
    ("2001:db8::1", "2001:db8::1"),
    ("2001:db8:9::1", "2001:db8::1"),
    ("::ffff:198.51.100.5", "2001:db8::1"),
    ("2001:db8:9::7", "2001:db8::1"),
];

/// Writes these values below `/proc/sys/net`.
fn write(settings: &[(&str, &str)]) {
    for (name, value) in settings {
        fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
    }
}

/// A host, or its twin: the frames have its hardware addresses.
struct Place(Hosts);

impl Place {
    fn new(routes: &str, settings: &[(&str, &str)]) -> Self {
        let hosts = Hosts::of_both_families();
        prepare_wire(&hosts);
        let client = hosts.client.mac.map(|byte| format!("{byte:02x}")).join(":");
        let lines = ADDRESSES.replace("CLIENT", &client) + routes;
        hosts.server.namespace.ip(&lines).unwrap();
        let listener = on(&hosts.server, || {
            write(settings);
            TcpListener::bind(("::", PORT)).unwrap()
        });
        // It ends with the process.
        thread::spawn(move || while listener.accept().is_ok() {});
        Self(hosts)
    }

    /// Attaches limiter, and takes all tokens for new sources.
    fn protected(self) -> Self {
        self.0.attach_file(SETTINGS);
        let wire = Raw::open(&self.0.client);
        for host in 0..40 {
            let source = IpAddr::from([203, 0, 113, host]);
            wire.send(&self.0.frame(source).bytes());
        }
        let refused = || number(&self.0.status()["drops"]["new_source"]["packets"]);
        eventually("refusals", || refused() >= 30);
        self
    }

    fn frame(&self, number: usize, (from, destination): (&str, &str), wrong: Wrong) -> Vec<u8> {
        let mut macs = [self.0.client.mac, self.0.server.mac];
        if wrong == Wrong::Sender {
            macs[0][0] |= 1;
        }
        let ether = PacketBuilder::ethernet2(macs[0], macs[1]);
        let ip = match (from.parse().unwrap(), destination.parse().unwrap()) {
            (IpAddr::V4(from), IpAddr::V4(destination)) => {
                ether.ipv4(from.octets(), destination.octets(), 20)
            }
            (IpAddr::V6(from), IpAddr::V6(destination)) => {
                ether.ipv6(from.octets(), destination.octets(), 20)
            }
            _ => unreachable!("one family"),
        };
        let tcp = ip.tcp(FIRST + number as u16, PORT, 1, 1_000).syn();
        let mut frame = Vec::new();
        tcp.write(&mut frame, &[]).unwrap();
        match wrong {
            Wrong::Ip => frame[24] ^= 0x55,
            Wrong::Tcp => *frame.last_mut().unwrap() ^= 1,
            _ => {}
        }
        if wrong == Wrong::Tcp {
            // The last byte is the urgent pointer, which nobody reads without URG, but the checksum covers it.
            assert_eq!(frame.len() % 2, 0);
        }
        frame
    }

    /// The numbers of the frames that get a SYN with ACK.
    fn answered(&self, frames: &[((&str, &str), Wrong)]) -> BTreeSet<usize> {
        let wire = Raw::open(&self.0.client);
        // A source behind the second network gets its answer there.
        let other = Raw::at(&self.0.server.namespace, "eth2").unwrap();
        for (number, (pair, wrong)) in frames.iter().enumerate() {
            wire.send(&self.frame(number, *pair, *wrong));
        }
        let mut answers = wire.receive(SILENCE);
        answers.extend(other.arrived());
        let number = |frame: &Vec<u8>| {
            let tcp = match frame[12..14] {
                [0x08, 0x00] => frame.get(34..)?,
                _ => frame.get(54..)?,
            };
            let is_answer = tcp.get(..2)? == PORT.to_be_bytes() && tcp.get(13)? & 0x3f == 0x12;
            let port = u16::from_be_bytes([tcp[2], tcp[3]]);
            is_answer.then(|| usize::from(port - FIRST))
        };
        answers.iter().filter_map(number).collect()
    }
}

/// Those of them that get an answer in every situation with routes.
const CLIENTS: [(&str, &str); 5] = [
    ("198.51.100.5", "192.0.2.1"),
    ("198.51.100.6", "198.18.0.1"),
    ("2001:db8:7::5", "2001:db8::1"),
    ("2001:db8:7::6", "2001:db8:9::1"),
    ("fe80::2", "fe80::1"),
];

/// All pairs, and the first of both families with each mistake.
fn frames() -> Vec<((&'static str, &'static str), Wrong)> {
    let mut all: Vec<_> = PAIRS.iter().map(|pair| (*pair, Wrong::Nothing)).collect();
    all.extend([
        (("198.51.100.20", "192.0.2.1"), Wrong::Sender),
        (("198.51.100.21", "192.0.2.1"), Wrong::Ip),
        (("198.51.100.22", "192.0.2.1"), Wrong::Tcp),
        (("2001:db8:7::20", "2001:db8::1"), Wrong::Sender),
        (("2001:db8:7::21", "2001:db8::1"), Wrong::Tcp),
    ]);
    all
}

type Setting = (&'static str, &'static str);
const FORWARDING: [Setting; 2] = [
    ("ipv4/conf/all/forwarding", "1"),
    ("ipv6/conf/all/forwarding", "1"),
];
const NO_FORWARDING: [Setting; 2] = [
    ("ipv4/conf/all/forwarding", "0"),
    ("ipv6/conf/all/forwarding", "0"),
];

/// Compares limiter with the twin, for each `rp_filter`, and without routes to the sources.
fn compare(forwarding: [Setting; 2]) {
    let frames = frames();
    let mut mistakes = Vec::new();
    for (filter, routes) in [("0", DEFAULT), ("1", DEFAULT), ("2", DEFAULT), ("0", "")] {
        let mut settings = forwarding.to_vec();
        settings.push(("ipv4/conf/all/rp_filter", filter));
        let situation = format!("rp_filter {filter}, routes {routes:?}");
        let program = Place::new(routes, &settings).protected().answered(&frames);
        let place = Place::new(routes, &settings);
        let mut twin = BTreeSet::new();
        // An answer of the twin may be lost while the machine has other work.
        for _ in 0..3 {
            twin.extend(place.answered(&frames));
            if program.is_subset(&twin) {
                break;
            }
        }
        let show = |numbers: Vec<&usize>| -> Vec<_> {
            numbers.into_iter().map(|number| frames[*number]).collect()
        };
        let less = show(twin.difference(&program).collect());
        println!("{situation}: answered by the kernel only: {less:?}");
        let more = show(program.difference(&twin).collect());
        if !more.is_empty() {
            mistakes.push(format!(
                "{situation}: answered by the program only: {more:?}"
            ));
        }
        let no_answer = |number: &&usize| !program.contains(number);
        let known: Vec<_> = (0..frames.len())
            .filter(|number| CLIENTS.contains(&frames[*number].0))
            .filter(|number| routes == DEFAULT || frames[*number].0.0 == "fe80::2")
            .collect();
        let clients = show(known.iter().filter(no_answer).collect());
        if !clients.is_empty() {
            mistakes.push(format!("{situation}: no answer to {clients:?}"));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn program_answers_what_the_kernel_answers_and_no_more_without_forwarding() {
    need_kernel!();
    compare(NO_FORWARDING);
}

#[test]
fn program_answers_what_the_kernel_answers_and_no_more_with_forwarding() {
    need_kernel!();
    compare(FORWARDING);
}

/// The number of answers to two clients with this number, one of each family, from these addresses. They try again,
/// because the machine may have other work.
fn answers(place: &Place, number: u8, destinations: [&'static str; 2]) -> usize {
    let from = [
        format!("198.51.100.{number}"),
        format!("2001:db8:7::{number}"),
    ];
    let pairs: Vec<_> = from.iter().map(|from| &**from).zip(destinations).collect();
    let frames: Vec<_> = (pairs.iter().map(|pair| (*pair, Wrong::Nothing))).collect();
    let tries = (0..3).map(|_| place.answered(&frames).len());
    tries.max().unwrap_or(0)
}

const OWN: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
const LOOPBACK: [Setting; 2] = [
    ("ipv4/conf/lo/forwarding", "1"),
    ("ipv6/conf/lo/forwarding", "1"),
];

#[test]
fn new_address_is_answered_from_the_next_command_on_and_a_removed_one_no_longer() {
    need_kernel!();
    const NEW: [&str; 2] = ["192.0.2.9", "2001:db8::9"];
    let place = Place::new(DEFAULT, &NO_FORWARDING).protected();
    let server = &place.0.server;
    let change = |word: &str| {
        let lines = format!(
            "address {word} 192.0.2.9/24 dev eth0\naddress {word} 2001:db8::9/64 dev eth0\n"
        );
        server.namespace.ip(&lines).unwrap();
        // The kernel adds the IPv6 route later.
        let routes = || fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap();
        let own = format!("{:032x} 80", 0x2001_0db8_u128 << 96 | 9);
        let is_there = || on(server, routes).contains(&own) == (word == "add");
        eventually("routes", is_there);
    };
    let set = |burst: u32| {
        place
            .0
            .run(&format!("set eth0 --limit one --burst {burst}"))
    };
    change("add");
    assert_eq!(answers(&place, 50, NEW), 0, "not known yet");
    set(11);
    assert_eq!(answers(&place, 51, NEW), 2, "after `set`");
    change("del");
    set(12);
    assert_eq!(answers(&place, 52, NEW), 0, "removed, after `set`");
    assert_eq!(answers(&place, 53, OWN), 2);
    // If an interface forwards, or the loopback, the kernel is asked at once.
    for (number, settings) in [(60, LOOPBACK), (70, FORWARDING)] {
        on(server, || write(&settings));
        change("add");
        set(number.into());
        assert_eq!(answers(&place, number, NEW), 2, "{settings:?}");
        change("del");
        assert_eq!(answers(&place, number + 1, NEW), 0, "{settings:?}");
        assert_eq!(answers(&place, number + 2, OWN), 2, "{settings:?}");
    }
}

#[test]
fn host_with_rules_for_routes_answers_if_the_kernel_can_be_asked() {
    need_kernel!();
    let place = Place::new(DEFAULT, &NO_FORWARDING);
    // They reject one source each.
    for (version, source) in [("-4", "198.51.100.81"), ("-6", "2001:db8:7::81")] {
        let mut ip = Command::new("ip");
        ip.args([version, "rule", "add", "to", source, "prohibit"]);
        assert!(on(&place.0.server, || ip.status().unwrap().success()));
    }
    let place = place.protected();
    assert_eq!(answers(&place, 80, OWN), 0, "the kernel cannot be asked");
    let told = place.0.limiter("doctor eth0").stdout;
    assert!(told.contains("conf.lo.forwarding=1"), "{told}");
    on(&place.0.server, || write(&LOOPBACK));
    assert_eq!(answers(&place, 81, OWN), 0, "there is no way back");
    assert_eq!(answers(&place, 82, OWN), 2);
}
