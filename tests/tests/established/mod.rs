//! `established` exempts only the host's own connections from a limit, even if a flood from their address has used it
//! up.
//!
//! The tests count dropped packets instead of measuring time: the packets of the flood that were sent, minus those that
//! arrived.

mod matched;
mod uncharged;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use limiter_common::{
    policy::{
        PacketInfo,
        connection::{KNOWN_FOR, Lookup},
    },
    table::key::Address,
};
use limiter_tests::{
    cpus::pin_to,
    eventually,
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    need_kernel, number,
    packet::{Ends, Segment},
    processes::packets_are_delivered,
    raw::Raw,
    testbed::Host,
};

const SILENCE: Duration = Duration::from_millis(100);
/// A hundred times the usual duration. Only a failed test waits that long.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a download. At 5 packets per second, it would take five minutes.
const DOWNLOAD: usize = 2 << 20;
/// The longest payload of a segment in an Ethernet frame.
const SEGMENT: u64 = 1_460;
/// The limit of the tests: packets per second, and burst.
const RATE: f64 = 5.0;
const BURST: f64 = 10.0;
const NEVER_SENT: u16 = 7;
const FAMILIES: [(IpAddr, IpAddr); 2] = [(SERVER, CLIENT), (SERVER_IPV6, CLIENT_IPV6)];

/// Attaches the limit alone by flags, or with a second limit by a file.
const ATTACH: [fn(&Hosts); 2] = [
    |hosts| {
        hosts.run("attach eth0 --rate 5 --burst 10 --exempt established");
    },
    |hosts| {
        hosts.attach_file(
            r#"
            interfaces = ["eth0"]
            exempt = ["established"]
            [lists]
            deny = ["203.0.113.66"]
            [[limit]]
            name = "all"
            rate = "5/s"
            burst = 10
            [[limit]]
            name = "network"
            key = "/24,/48"
            rate = "1M/s"
            "#,
        );
    },
];

/// Reduces the data in flight, so that it always fits into the ring of a veth (256 packets) beside the flood.
fn small_buffers(host: &Host) {
    on(host, || {
        for sizes in ["rmem", "wmem"] {
            fs::write(
                format!("/proc/sys/net/ipv4/tcp_{sizes}"),
                "4096 65536 65536",
            )
            .unwrap();
        }
    });
}

fn ends(hosts: &Hosts, from: SocketAddr, destination: SocketAddr) -> Ends {
    Ends {
        macs: (hosts.client.mac, hosts.server.mac),
        from,
        to: destination,
    }
}

/// Frames that are similar to those of a TCP connection and do not belong to it.
fn similar_frames(connection: Ends) -> Vec<Vec<u8>> {
    let (from, destination) = (connection.from.port(), connection.to.port());
    let others = [
        connection.at(from, NEVER_SENT),
        connection.at(NEVER_SENT, destination),
        connection.at(destination, from),
    ];
    let frames = others.map(|ends| {
        let [syn, data] = [Segment::Syn, Segment::Data].map(|segment| ends.tcp(segment));
        [syn, data, ends.udp(b"flood")]
    });
    let of_udp = connection.udp(b"flood");
    frames.concat().into_iter().chain([of_udp]).collect()
}

/// The server downloads from the client. The client floods the server meanwhile.
#[test]
fn download_under_flood_loses_no_packet() {
    need_kernel!();
    for ((server, client), attach) in FAMILIES.into_iter().flat_map(|f| ATTACH.map(|a| (f, a))) {
        let hosts = Hosts::of_both_families();
        small_buffers(&hosts.server);
        small_buffers(&hosts.client);
        let listener = on(&hosts.client, || TcpListener::bind((client, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let (wire, behind) = (Raw::open(&hosts.client), Raw::open(&hosts.server));
        let since = Instant::now();
        attach(&hosts);
        // The bucket is empty before the connection begins.
        let unknown = ends(&hosts, address, SocketAddr::new(server, NEVER_SENT)).udp(b"first");
        (0..50).for_each(|_| wire.send(&unknown));

        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let stream = on(&hosts.server, connect).expect("the connection opens");
        let (mut peer, from) = listener.accept().unwrap();
        peer.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut frames = similar_frames(ends(&hosts, address, from));
        let mut sent = 50;
        let received = thread::scope(|scope| {
            let download = scope.spawn(|| read_all(stream));
            for _ in 0..DOWNLOAD / CHUNK {
                assert!(since.elapsed() < PATIENCE, "the download takes too long");
                (0..16).for_each(|index| wire.send(&frames[(sent + index) % frames.len()]));
                sent += 16;
                peer.write_all(&[0x5a; CHUNK]).unwrap();
            }
            peer.shutdown(Shutdown::Write).unwrap();
            download.join().unwrap()
        });
        assert_eq!(received, DOWNLOAD, "{client}");
        frames.push(unknown);
        let arrived = behind.receive(SILENCE).into_iter();
        assert_eq!(behind.lost(), 0, "the packet socket has room");
        let arrived = arrived.filter(|frame| frames.contains(frame)).count();
        only_the_flood_was_dropped(&hosts, client, (sent, arrived), since);
    }
}

/// Panics unless the flood was limited, of which `arrived` packets of `sent` passed, and all packets of the download
/// passed.
fn only_the_flood_was_dropped(
    hosts: &Hosts,
    client: IpAddr,
    (sent, arrived): (usize, usize),
    since: Instant,
) {
    let status = hosts.status();
    let most = (BURST + RATE * since.elapsed().as_secs_f64()) as u64;
    let dropped = number(&status["dropped"]["packets"]);
    let established = number(&status["passes"]["established"]["packets"]);
    let check = hosts.json(&["check", "eth0", &client.to_string(), "--json"]);
    let admitted = number(&check["limits"][0]["passed_packets"]);
    let figures = format!("{client}: {arrived} of {sent}, at most {most}, {status}, {check}");
    assert_eq!(dropped + arrived as u64, sent as u64, "{figures}");
    assert_eq!(status["drops"]["limit"]["packets"], dropped, "{figures}");
    assert!(arrived as u64 <= most, "{figures}");
    assert!((BURST as u64..=most).contains(&admitted), "{figures}");
    assert!(
        established + admitted >= DOWNLOAD as u64 / SEGMENT,
        "{figures}"
    );
}

/// Bytes per write.
const CHUNK: usize = 16 << 10;

/// Reads until the end. Returns the number of bytes.
fn read_all(mut connection: TcpStream) -> usize {
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut buffer, mut received) = ([0; CHUNK], 0);
    loop {
        match connection.read(&mut buffer).unwrap() {
            0 => return received,
            length => received += length,
        }
    }
}

/// A connected socket on the server, and an unconnected socket on the client.
fn connected_udp(hosts: &Hosts, server: IpAddr, client: IpAddr) -> (UdpSocket, UdpSocket) {
    let from = on(&hosts.client, || UdpSocket::bind((client, 0))).unwrap();
    let socket = on(&hosts.server, || UdpSocket::bind((server, 0))).unwrap();
    socket.connect(from.local_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    (socket, from)
}

/// The ends of the packets between two sockets.
fn ends_of(hosts: &Hosts, from: &UdpSocket, receiver: &UdpSocket) -> Ends {
    ends(
        hosts,
        from.local_addr().unwrap(),
        receiver.local_addr().unwrap(),
    )
}

/// Sends `frame` `count` times from the client. Returns the number that passed as established, and that were dropped.
fn offer(hosts: &Hosts, frame: &[u8], count: usize) -> (u64, u64) {
    let figures = || {
        let status = hosts.status();
        let paths = ["/seen", "/passes/established", "/drops/limit"];
        paths.map(|path| number(&status.pointer(path).unwrap()["packets"]))
    };
    let before = figures();
    let wire = Raw::open(&hosts.client);
    (0..count).for_each(|_| wire.send(frame));
    eventually("all are seen", || figures()[0] >= before[0] + count as u64);
    let after = figures();
    (after[1] - before[1], after[2] - before[2])
}

/// A socket that accepts packets from any source has no established connection.
#[test]
fn listening_and_unconnected_sockets_are_limited() {
    need_kernel!();
    // The address is unused, so that no answers to the server take tokens.
    for (server, unused) in [(SERVER, "192.0.2.77"), (SERVER_IPV6, "2001:db8::77")] {
        let hosts = Hosts::of_both_families();
        let listener = on(&hosts.server, || TcpListener::bind((server, 0))).unwrap();
        let udp = on(&hosts.server, || UdpSocket::bind((server, 0))).unwrap();
        let from = SocketAddr::new(unused.parse().unwrap(), 40_000);
        let tcp = ends(&hosts, from, listener.local_addr().unwrap());
        let to_udp = ends(&hosts, from, udp.local_addr().unwrap());
        hosts.run("attach eth0 --rate 1/h --burst 3 --exempt established");
        for (kind, frame) in [
            ("SYN", tcp.tcp(Segment::Syn)),
            ("data", tcp.tcp(Segment::Data)),
            ("UDP", to_udp.udp(b"flood")),
        ] {
            hosts.run("reset eth0 --all");
            assert_eq!(offer(&hosts, &frame, 20), (0, 17), "{kind} to {server}");
        }
        packets_are_delivered();
        udp.set_read_timeout(Some(SILENCE)).unwrap();
        let received = (0..20).filter(|_| udp.recv(&mut [0; 16]).is_ok()).count();
        assert_eq!(received, 3);
    }
}

/// A connection is established only after its handshake, which takes tokens.
#[test]
fn handshake_is_limited() {
    need_kernel!();
    for (server, _) in FAMILIES {
        let hosts = Hosts::of_both_families();
        let listener = on(&hosts.server, || TcpListener::bind((server, 0))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        hosts.run("attach eth0 --rate 1/h --burst 1 --exempt established");
        // For the client, which has the server's answer, the connection is open.
        let _client = on(&hosts.client, || TcpStream::connect(address)).unwrap();
        eventually("the third packet is dropped", || {
            number(&hosts.status()["drops"]["limit"]["packets"]) > 0
        });
        assert_eq!(hosts.status()["passes"]["established"]["packets"], 0);
        assert!(listener.accept().is_err(), "not complete");

        // The server answers again, and so does the client.
        hosts.run("reset eth0 --all");
        eventually("the connection is complete", || listener.accept().is_ok());
    }
}

/// While the connection is open, and for [`KNOWN_FOR`] after that, its packets are exempt.
#[test]
fn closed_connection_is_limited() {
    need_kernel!();
    // Each CPU remembers its own lookups.
    pin_to(0);
    for (server_closes_first, (server, _)) in [true, false].into_iter().zip(FAMILIES) {
        let hosts = Hosts::of_both_families();
        let listener = on(&hosts.server, || TcpListener::bind((server, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let from = on(&hosts.client, || TcpStream::connect(address)).unwrap();
        let receiver = listener.accept().unwrap().0;
        let frame = ends(&hosts, from.local_addr().unwrap(), address).tcp(Segment::Data);
        hosts.run("attach eth0 --rate 1/h --burst 3 --exempt established");
        assert_eq!(offer(&hosts, &frame, 20), (20, 0), "open");

        // The segments that close the connection are exempt too: the bucket stays full.
        let mut ends = [receiver, from];
        if !server_closes_first {
            ends.reverse();
        }
        ends.into_iter().for_each(drop);
        eventually("the connection is closed", || {
            !has_connection(&hosts, address.port())
        });
        thread::sleep(Duration::from_nanos(2 * KNOWN_FOR));
        let (established, dropped) = offer(&hosts, &frame, 20);
        assert_eq!(established, 0, "closed");
        // The last segment of the connection may find it closed already and take a token.
        assert!((17..=18).contains(&dropped), "closed: {dropped} dropped");
    }
}

/// A packet with the addresses of an established connection is limited, even if each CPU would remember both in the same
/// place.
#[test]
fn another_flow_in_the_place_of_a_connection_is_limited() {
    need_kernel!();
    for (server, client) in FAMILIES {
        let hosts = Hosts::of_both_families();
        let (receiver, from) = connected_udp(&hosts, server, client);
        let connection = ends_of(&hosts, &from, &receiver);
        let place = |port: u16| {
            let address = match client {
                IpAddr::V4(address) => Address::ipv4(u32::from_ne_bytes(address.octets())),
                IpAddr::V6(address) => {
                    let octets = address.octets();
                    let word = |index: usize| {
                        u64::from_ne_bytes(octets[index..index + 8].try_into().unwrap())
                    };
                    Address::ipv6([word(0), word(8)])
                }
            };
            let mut info = PacketInfo::of(address);
            info.protocol = 17;
            info.source_port = port.into();
            info.destination_port = connection.to.port().into();
            Lookup::of(&info, 0).place()
        };
        let port = connection.from.port();
        let mut others = (1..u16::MAX).filter(|&other| other != port);
        let other = others.find(|&other| place(other) == place(port)).unwrap();
        let mut stranger = connection;
        stranger.from.set_port(other);
        hosts.run("attach eth0 --rate 1/h --burst 3 --exempt established");
        pin_to(0);
        let wire = Raw::open(&hosts.client);
        let frames = [connection, stranger].map(|ends| ends.udp(b"data"));
        // All packets come while the first lookup is remembered.
        for _ in 0..5 {
            frames.iter().for_each(|frame| wire.send(frame));
        }
        eventually("all are seen", || {
            number(&hosts.status()["seen"]["packets"]) >= 10
        });
        let status = hosts.status();
        assert_eq!(status["passes"]["established"]["packets"], 5, "{status}");
        assert_eq!(status["drops"]["limit"]["packets"], 2, "{status}");
    }
}

/// The last segment of the handshake is looked up before the connection is complete. That is not remembered.
#[test]
fn connection_is_exempt_right_after_its_handshake() {
    need_kernel!();
    for (server, _) in FAMILIES {
        let hosts = Hosts::of_both_families();
        let listener = on(&hosts.server, || TcpListener::bind((server, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        hosts.run("attach eth0 --rate 1/h --burst 2 --exempt established");
        let mut from = on(&hosts.client, || TcpStream::connect(address)).unwrap();
        from.write_all(b"data").unwrap();
        let mut receiver = listener.accept().unwrap().0;
        receiver.read_exact(&mut [0; 4]).unwrap();
        assert_eq!(hosts.status()["drops"]["limit"]["packets"], 0);
    }
}

/// True if the server has a connection with this port that is not yet closed by both ends.
fn has_connection(hosts: &Hosts, port: u16) -> bool {
    const TIME_WAIT: &str = "06";
    const CLOSED: &str = "07";
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    let open = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        let state = fields.nth(1).unwrap_or_default();
        local.ends_with(&port) && ![TIME_WAIT, CLOSED, LISTEN].contains(&state)
    };
    on(&hosts.server, || {
        let tables = ["tcp", "tcp6"].map(|table| {
            let path = format!("/proc/thread-self/net/{table}");
            fs::read_to_string(path).unwrap()
        });
        tables.iter().any(|table| table.lines().any(open))
    })
}
