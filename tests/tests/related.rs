//! ICMP and ICMPv6 errors about a connection of the host count as packets of this connection, from whatever address they
//! come. No other message of ICMP does.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use etherparse::PacketBuilder;
use limiter_tests::{
    eventually,
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    need_kernel, number,
    packet::Ends,
    raw::Raw,
};

const FAMILIES: [(IpAddr, IpAddr); 2] = [(SERVER, CLIENT), (SERVER_IPV6, CLIENT_IPV6)];
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Port of no connection.
const OTHER: u16 = 7;

/// A connected socket on the server, its peer, and a datagram that it has sent.
struct Connection {
    _sockets: (UdpSocket, UdpSocket),
    /// The packets of the server.
    sent: Ends,
}

impl Connection {
    fn new(hosts: &Hosts, server: IpAddr, client: IpAddr) -> Self {
        let peer = on(&hosts.client, || UdpSocket::bind((client, 0))).unwrap();
        let socket = on(&hosts.server, || UdpSocket::bind((server, 0))).unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        let sent = Ends {
            macs: (hosts.server.mac, hosts.client.mac),
            from: socket.local_addr().unwrap(),
            to: peer.local_addr().unwrap(),
        };
        Self {
            _sockets: (socket, peer),
            sent,
        }
    }

    /// A packet of the peer.
    fn received(&self) -> Ends {
        Ends {
            macs: (self.sent.macs.1, self.sent.macs.0),
            from: self.sent.to,
            to: self.sent.from,
        }
    }
}

/// Two hosts with addresses of this family. Those with IPv4 alone send nothing on their own.
fn hosts_of(server: IpAddr) -> Hosts {
    if server.is_ipv4() {
        Hosts::new()
    } else {
        Hosts::of_both_families()
    }
}

/// Types of errors: of ICMP, or of ICMPv6.
fn errors(is_ipv4: bool) -> Vec<u8> {
    if is_ipv4 {
        vec![3, 11, 12]
    } else {
        vec![1, 2, 3, 4]
    }
}

/// Address number `number` of a router.
fn router(is_ipv4: bool, number: u8) -> IpAddr {
    if is_ipv4 {
        [198, 51, 100, number].into()
    } else {
        [0x2001, 0xdb8, 0xffff, number.into(), 0, 0, 0, 1].into()
    }
}

/// A message of ICMP or ICMPv6 from a router to the server, with these bytes behind its header.
fn message(hosts: &Hosts, from: IpAddr, destination: IpAddr, kind: u8, quoted: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(hosts.client.mac, hosts.server.mac);
    let mut bytes = Vec::new();
    match (from, destination) {
        (IpAddr::V4(from), IpAddr::V4(destination)) => builder
            .ipv4(from.octets(), destination.octets(), 64)
            .icmpv4_raw(kind, 0, [0; 4])
            .write(&mut bytes, quoted),
        (IpAddr::V6(from), IpAddr::V6(destination)) => builder
            .ipv6(from.octets(), destination.octets(), 64)
            .icmpv6_raw(kind, 0, [0; 4])
            .write(&mut bytes, quoted),
        mixed => panic!("of two families: {mixed:?}"),
    }
    .unwrap();
    bytes
}

/// The first bytes of the IP packet in a frame: its headers and eight bytes.
fn quotation(frame: &[u8]) -> &[u8] {
    let header = if frame[12] == 8 { 20 } else { 40 };
    &frame[ETHERNET..ETHERNET + header + 8]
}

/// Sends each frame once. Returns the packets that passed as established, and those that were dropped.
fn offer<'a>(hosts: &Hosts, frames: impl IntoIterator<Item = &'a Vec<u8>>) -> (u64, u64) {
    let figures = || {
        let status = hosts.status();
        let paths = ["/seen", "/passes/established", "/dropped"];
        paths.map(|path| number(&status.pointer(path).unwrap()["packets"]))
    };
    let before = figures();
    let wire = Raw::open(&hosts.client);
    let mut sent = 0;
    for frame in frames {
        wire.send(frame);
        sent += 1;
    }
    eventually("all are seen", || figures()[0] >= before[0] + sent);
    let after = figures();
    (after[1] - before[1], after[2] - before[2])
}

/// The fast path, the full path, and the program in the network stack.
const ATTACH: [fn(&Hosts); 3] = [
    |hosts| {
        hosts.run("attach eth0 --rate 1/h --burst 3 --exempt established");
    },
    |hosts| {
        hosts.attach_file(
            "interfaces = [\"eth0\"]\nexempt = [\"established\"]\n\
             [[limit]]\nname = \"all\"\nrate = \"1/h\"\nburst = 3\n\
             [[limit]]\nname = \"network\"\nkey = \"/24,/48\"\nrate = \"1M/s\"\n",
        );
    },
    |hosts| {
        hosts.run("attach eth0 --rate 1/h --burst 3 --exempt established --mode tc");
    },
];

#[test]
fn error_about_a_connection_passes_a_used_up_limit_and_no_other_message_does() {
    need_kernel!();
    for ((server, client), attach) in FAMILIES.into_iter().flat_map(|f| ATTACH.map(|a| (f, a))) {
        let hosts = hosts_of(server);
        let connection = Connection::new(&hosts, server, client);
        let is_ipv4 = server.is_ipv4();
        attach(&hosts);
        let sent = connection.sent;
        let frame = sent.udp(b"12345678");
        let quoted = quotation(&frame);
        let about = |kind, quoted: &[u8]| message(&hosts, router(is_ipv4, 1), server, kind, quoted);
        for kind in errors(is_ipv4) {
            let error = about(kind, quoted);
            assert_eq!(
                offer(&hosts, &vec![error; 20]),
                (20, 0),
                "{server}, type {kind}"
            );
        }

        let unreachable = errors(is_ipv4)[0];
        let (from, destination) = (sent.from.port(), sent.to.port());
        let not_of_host = Ends {
            from: SocketAddr::new(router(is_ipv4, 9), from),
            ..sent
        };
        let [other_port, other_peer_port, received, foreign] = [
            sent.at(OTHER, destination),
            sent.at(from, OTHER),
            connection.received(),
            not_of_host,
        ]
        .map(|ends| ends.udp(b"12345678"));
        let [redirect, echo] = if is_ipv4 { [5, 8] } else { [137, 128] };
        let mut fragment = about(unreachable, quoted);
        let others = [
            (
                "another port of the host",
                about(unreachable, quotation(&other_port)),
            ),
            (
                "another port of the peer",
                about(unreachable, quotation(&other_peer_port)),
            ),
            (
                "a packet that the host has received",
                about(unreachable, quotation(&received)),
            ),
            (
                "a packet of another host",
                about(unreachable, quotation(&foreign)),
            ),
            ("a redirect", about(redirect, quoted)),
            ("an echo request", about(echo, quoted)),
            ("no ports", about(unreachable, &quoted[..quoted.len() - 8])),
            ("half an address", about(unreachable, &quoted[..14])),
            ("nothing", about(unreachable, &[])),
            ("a fragment", {
                if is_ipv4 {
                    fragment[ETHERNET + 6] = 0x20;
                } else {
                    fragment[ETHERNET + 6] = 6;
                }
                fragment
            }),
        ];
        for (what_it_is, frame) in others {
            hosts.run("reset eth0 --all");
            assert_eq!(
                offer(&hosts, &vec![frame; 20]),
                (0, 17),
                "{server}: {what_it_is}"
            );
        }
    }
}

/// A flood of errors from made-up routers gets what the limit on the connection admits, and needs no entry of the table.
#[test]
fn errors_about_a_connection_share_its_bucket() {
    need_kernel!();
    for (server, client) in FAMILIES {
        for key in ["/32,/64", "flow", "source + destination"] {
            let hosts = hosts_of(server);
            let connection = Connection::new(&hosts, server, client);
            let is_ipv4 = server.is_ipv4();
            hosts.attach_file(&format!(
                "interfaces = [\"eth0\"]\nexempt = [\"established\"]\n\
                 [lists]\ndeny = [\"198.51.100.66\", \"2001:db8:ffff:42::/64\"]\n\
                 [[limit]]\nname = \"all\"\nrate = \"1/h\"\nburst = 3\n\
                 [[limit]]\nname = \"connections\"\nkey = \"{key}\"\nrate = \"1/h\"\nburst = 5\n\
                 match = {{ established = true, protocol = \"udp\", source_port = {}, destination_port = {} }}\n",
                connection.sent.to.port(),
                connection.sent.from.port(),
            ));
            let frame = connection.sent.udp(b"12345678");
            let error = |number| {
                let from = router(is_ipv4, number);
                message(&hosts, from, server, errors(is_ipv4)[0], quotation(&frame))
            };
            let flood: Vec<_> = (1..=20).map(error).collect();
            assert_eq!(offer(&hosts, &flood), (0, 15), "{server}, {key}");
            assert_eq!(hosts.status()["sources"]["proven"], 1, "{}", hosts.status());
            let own = connection.received().udp(b"data");
            assert_eq!(offer(&hosts, &vec![own; 4]), (0, 4), "{server}, {key}");

            // The lists are about the router.
            assert_eq!(offer(&hosts, &vec![error(0x42); 3]), (0, 3));
            assert_eq!(hosts.status()["drops"]["deny"]["packets"], 3);
        }
    }
}
