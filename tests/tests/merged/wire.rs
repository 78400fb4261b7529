//! Merged packets on a wire, whose sender's kernel cuts them: limiter counts what the wire carries.

use std::{
    fs,
    io::{IoSlice, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    process::Command,
    thread,
    time::Duration,
};

use fastrand::Rng;
use limiter_common::abi::counters::Count;
use limiter_kernel::{Attachment, program::Tables};
use limiter_tests::{
    command::ip,
    eventually,
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, SERVER_IPV6, on},
    model::merged::{Kind, Merged},
    number,
    offload::offloaded,
    random::{self, merged::merged},
    raw::{self, Raw, set_option},
    testbed::Host,
    tun::Tun,
};
use nix::sys::socket::{
    Backlog, ControlMessage, MsgFlags, SockaddrIn, SockaddrStorage, bind, connect, listen, sendmsg,
};

use super::{
    Size,
    computed::{check, cut},
};

/// Rounds with random packets.
const ROUNDS: usize = 60;
/// After so long without packets, no report is under way. The kernel waits for milliseconds ([`report_at_once`]).
const SILENCE: Duration = Duration::from_millis(300);
/// After so long, a bridge has passed a packet on.
const BRIDGED: Duration = Duration::from_millis(50);
/// A limit that drops nothing.
pub const LIMIT: &str = "--rate 1000000/s --burst 1000000";

/// Returns from a test on a kernel without tcx, where there is no mode tc.
macro_rules! need_tcx {
    () => {
        limiter_tests::need_kernel!();
        if !limiter_tests::need::tcx() {
            return;
        }
    };
}
pub(super) use need_tcx;

/// Runs a command on a host. Returns its output; none if it failed.
pub fn tool(host: &Host, line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next()?);
    command.args(words);
    let output = on(host, || command.output()).ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// Lets the host's kernel cut packets before they leave `eth0`, so that the wire carries what a network card would send.
pub fn cut_before_the_wire(host: &Host) {
    for feature in [
        "tcp-segmentation-offload",
        "tx-udp-segmentation",
        "tx-sctp-segmentation",
        "tx-udp_tnl-segmentation",
        "tx-udp_tnl-csum-segmentation",
        "tx-gre-segmentation",
        "tx-gre-csum-segmentation",
        "tx-ipxip4-segmentation",
        "tx-ipxip6-segmentation",
        "tx-gso-list",
        "tx-gso-partial",
    ] {
        // Not every kernel has all of them.
        let _ = tool(host, &format!("ethtool -K eth0 {feature} off"));
    }
}

/// Packets and bytes that the host's `eth0` has sent.
pub fn sent(host: &Host) -> Size {
    let text = on(host, || fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth0:"));
    // Eight columns of what came in are before them.
    let mut columns = line
        .unwrap()
        .split_whitespace()
        .skip(8)
        .map(|column| column.parse());
    let [bytes, packets] = [(); 2].map(|()| columns.next().unwrap().unwrap());
    (packets, bytes)
}

/// The counters of an attachment. They are read from its maps, because a command for each look would take most of the
/// time in an emulated machine.
pub struct Seen(Tables);

impl Seen {
    /// The counters of an attachment of the server.
    pub fn of(hosts: &Hosts, place: &str) -> Self {
        let opened = hosts.server.namespace.block_on(|| Attachment::open(place));
        Self(opened.unwrap().unwrap().tables)
    }

    /// Packets and bytes that limiter has seen.
    pub fn now(&self) -> Size {
        let counters = self.0.counters().unwrap().by_reason;
        let sum = |unit: fn(&Count) -> u64| counters.iter().map(unit).sum();
        (sum(|count| count.packets), sum(|count| count.bytes))
    }

    /// Packets and bytes that limiter has seen, and that the host has sent, at one moment: the kernel asks for neighbours
    /// now and then, also between two readings.
    pub fn with_sent(&self, host: &Host) -> (Size, Size) {
        loop {
            let both = (self.now(), sent(host));
            if self.now() == both.0 {
                return both;
            }
        }
    }

    /// Waits until `status` shows these counters.
    pub fn expect_shown(&self, hosts: &Hosts, place: &str) {
        eventually("status shows the counters", || {
            let now = self.now();
            let status = hosts.json(&format!("status {place} --json"));
            let seen = &status["interfaces"][0]["seen"];
            now.0 > 0 && now == (number(&seen["packets"]), number(&seen["bytes"]))
        });
    }
}

/// Lets the host's kernel send its reports of multicast groups without delay.
pub fn report_at_once(host: &Host) {
    on(host, || {
        for name in ["default", "eth0"] {
            let path = format!("/proc/sys/net/ipv6/conf/{name}/mldv2_unsolicited_report_interval");
            fs::write(path, "1").unwrap();
        }
    });
}

/// Waits until the host's kernel has sent its reports of multicast groups.
pub fn wait_for_silence(host: &Host) {
    let mut before = sent(host);
    eventually("the kernel sends nothing on its own", || {
        thread::sleep(SILENCE);
        let now = sent(host);
        std::mem::replace(&mut before, now) == now
    });
}

pub fn minus(after: Size, before: Size) -> Size {
    (after.0 - before.0, after.1 - before.1)
}

/// The packet as the host's kernel reads it, which has sent it in so many packets. Some kernels (Debian's 6.12.117, not
/// 6.18) raise TCP segments to 8 bytes, their TCP_MIN_GSO_SIZE. None: such a kernel drops a packet that is then too short.
fn as_read(mut merged: Merged, packets: u64) -> Option<Merged> {
    if merged.kind == Kind::Tcp && merged.segment < 8 && packets < cut(&merged).0 {
        merged.segment = 8;
        if packets == 0 && merged.payload.len() <= merged.segment {
            return None;
        }
    }
    Some(merged)
}

#[test]
fn outgoing_packets_of_any_form_count_as_on_the_wire() {
    need_tcx!();
    let seed = random::seed(0x6f75_7400);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    let hosts = Hosts::new();
    cut_before_the_wire(&hosts.server);
    hosts.run(&format!("attach eth0:out {LIMIT}"));
    let seen = Seen::of(&hosts, "eth0:out");
    let wire = Raw::to_send_merged(&hosts.server);
    let macs = (hosts.server.mac, hosts.client.mac);
    let mut kinds = [0; 3];
    for _ in 0..ROUNDS {
        let merged = merged(&mut rng, macs, 0);
        let before = seen.with_sent(&hosts.server);
        wire.send(&offloaded(&merged));
        let charged = minus(seen.now(), before.0);
        let real = minus(sent(&hosts.server), before.1);
        let Some(merged) = as_read(merged, real.0) else {
            continue;
        };
        assert_eq!(real, cut(&merged), "{merged:?}");
        // From Linux 6.19 on, the kernel counts before limiter sees the packet.
        check(&merged, false, charged, real);
        kinds[merged.kind as usize] += 1;
    }
    seen.expect_shown(&hosts, "eth0:out");
    assert!(kinds.iter().all(|&count| count > 0), "{kinds:?}");
}

#[test]
fn incoming_packets_that_the_interface_merges_count_as_on_the_wire() {
    need_tcx!();
    let seed = random::seed(0x696e_0000);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    let hosts = Hosts::new();
    cut_before_the_wire(&hosts.client);
    tool(&hosts.server, "ethtool -K eth0 gro on").unwrap();
    let _ = tool(&hosts.server, "ethtool -K eth0 rx-udp-gro-forwarding on");
    hosts.run(&format!("attach eth0 --hook tc {LIMIT}"));
    let seen = Seen::of(&hosts, "eth0");
    let wire = Raw::to_send_merged(&hosts.client);
    let receiver = Raw::open(&hosts.server);
    let macs = (hosts.client.mac, hosts.server.mac);
    let mut merges = 0;
    for _ in 0..ROUNDS {
        let merged = merged(&mut rng, macs, 0);
        if merged.headers[12..14] == [0x81, 0] || merged.headers[12..14] == [0x88, 0xa8] {
            // The kernel takes the outer tag off before limiter sees the packet.
            continue;
        }
        let before = seen.with_sent(&hosts.client);
        wire.send(&offloaded(&merged));
        // To a peer that polls, veth does not count Ethernet headers.
        let packets = minus(sent(&hosts.client), before.1).0;
        let Some(merged) = as_read(merged, packets) else {
            continue;
        };
        let real = cut(&merged);
        assert_eq!(packets, real.0, "{merged:?}");
        let mut charged = (0, 0);
        eventually("all packets are seen", || {
            charged = minus(seen.now(), before.0);
            charged.0 >= real.0
        });
        assert_eq!(charged.0, real.0, "{merged:?}");
        check(&merged, true, charged, real);
        merges += usize::from((receiver.arrived().len() as u64) < real.0);
    }
    seen.expect_shown(&hosts, "eth0");
    assert!(merges > 5, "the interface has merged {merges}");
}

#[test]
fn packets_that_a_virtual_machine_leaves_to_the_host_to_cut_count_as_on_the_wire() {
    need_tcx!();
    let seed = random::seed(0x7461_7000);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    let hosts = Hosts::new();
    cut_before_the_wire(&hosts.server);
    // The bridge sends nothing on its own.
    on(&hosts.server, || {
        fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    });
    let tap = Tun::tap(&hosts.server, "tap0").unwrap();
    for line in [
        "link add br0 type bridge mcast_snooping 0",
        "link set eth0 master br0",
        "link set tap0 master br0",
        "link set tap0 up",
        "link set br0 up",
    ] {
        ip(&hosts.server.namespace, line);
    }
    hosts.run(&format!("attach tap0 --hook tc {LIMIT}"));
    hosts.run(&format!("attach eth0:out {LIMIT}"));
    let places = ["tap0", "eth0:out"].map(|place| (place, Seen::of(&hosts, place)));
    let macs = ([6; 6], hosts.client.mac);
    let mut fragments = 0;
    for _ in 0..ROUNDS {
        let merged = merged(&mut rng, macs, 0);
        if merged.headers[12..14] == [0x81, 0] || merged.headers[12..14] == [0x88, 0xa8] {
            continue;
        }
        let before = (
            places.each_ref().map(|(_, seen)| seen.now()),
            sent(&hosts.server),
        );
        tap.arrive_merged(&merged);
        // The bridge may pass the packet on a little later, and the kernel may drop it.
        thread::sleep(BRIDGED);
        let real = minus(sent(&hosts.server), before.1);
        let Some(merged) = as_read(merged, real.0) else {
            continue;
        };
        assert_eq!(real, cut(&merged), "{merged:?}");
        for ((place, seen), before) in places.iter().zip(before.0) {
            let charged = minus(seen.now(), before);
            check(&merged, false, charged, real);
            if merged.kind == Kind::Fragments {
                assert_eq!(charged.0, real.0, "{place}: {merged:?}");
                fragments += 1;
            }
        }
    }
    for (place, seen) in &places {
        seen.expect_shown(&hosts, place);
    }
    assert!(fragments > 0, "no fragments");
}

const IPV6_RTHDR: libc::c_int = 57;

/// Options of a socket that put a header into each packet: option, and its value.
fn header_options(hop: IpAddr) -> Vec<(libc::c_int, Vec<u8>)> {
    const IPV6_HOPOPTS: libc::c_int = 54;
    const IPV6_DSTOPTS: libc::c_int = 59;
    // An option that receivers skip. They accept no more than seven bytes of padding.
    let option = |units: u8| {
        let mut header = vec![0, units, 0x1e, units * 8 + 4];
        header.resize(8 + 8 * usize::from(units), 0);
        header
    };
    let IpAddr::V6(hop) = hop else { panic!("IPv6") };
    // A segment routing header (RFC 8754) with one segment, which any user may set.
    let routing = [&[0, 2, 4, 0, 0, 0, 0, 0][..], &hop.octets()].concat();
    vec![
        (0, Vec::new()),
        (IPV6_HOPOPTS, option(0)),
        (IPV6_DSTOPTS, option(3)),
        (IPV6_DSTOPTS, option(28)),
        (IPV6_RTHDR, routing),
    ]
}

/// Sends UDP packets of so many bytes of payload as one merged packet. None: the kernel does not.
pub fn send_udp(
    socket: &UdpSocket,
    destination: SocketAddr,
    segment: usize,
    payload: usize,
) -> Option<()> {
    let payload = vec![0x5a; payload];
    let size = segment as u16;
    let segments = [ControlMessage::UdpGsoSegments(&size)];
    let data = [IoSlice::new(&payload)];
    let destination = SockaddrStorage::from(destination);
    let fd = socket.as_raw_fd();
    sendmsg(fd, &data, &segments, MsgFlags::empty(), Some(&destination)).ok()?;
    Some(())
}

#[test]
fn udp_packets_of_a_local_user_count_as_on_the_wire() {
    need_tcx!();
    let seed = random::seed(0x7573_6f00);
    println!("seed {seed:#x}");
    let mut rng = Rng::with_seed(seed);
    let hosts = Hosts::of_both_families();
    cut_before_the_wire(&hosts.server);
    report_at_once(&hosts.server);
    wait_for_silence(&hosts.server);
    hosts.run(&format!("attach eth0:out {LIMIT}"));
    let seen = Seen::of(&hosts, "eth0:out");
    let mut all: Vec<_> = header_options(CLIENT_IPV6)
        .into_iter()
        .map(|option| (SERVER_IPV6, CLIENT_IPV6, option))
        .collect();
    all.push((SERVER, CLIENT, (0, Vec::new())));
    for (from, destination, (option, value)) in all {
        let socket = on(&hosts.server, || UdpSocket::bind((from, 0)).unwrap());
        if option != 0 {
            set_option(&socket, libc::IPPROTO_IPV6, option, &value).unwrap();
        }
        let mut merges = 0;
        for _ in 0..8 {
            let most = *random::one(&mut rng, &[3, 30, 1_000]);
            let segment = rng.usize(1..=most);
            let packets = rng.usize(2..60);
            let payload = segment * (packets - 1) + rng.usize(1..=segment);
            let before = seen.with_sent(&hosts.server);
            if send_udp(&socket, (destination, 9).into(), segment, payload).is_none() {
                continue;
            }
            let after = seen.with_sent(&hosts.server);
            let (charged, real) = (minus(after.0, before.0), minus(after.1, before.1));
            let case = format!("{destination}, option {option}, {packets} of {segment}");
            // A question for a neighbour, and the answer to one, may be among them.
            let own = real.0.checked_sub(packets as u64);
            assert!(own.is_some_and(|own| own <= 2), "{case}: {real:?}");
            assert_eq!(charged.0, real.0, "{case}");
            let more = if destination.is_ipv6() { 8 } else { 0 };
            assert!(
                (real.1..=real.1 + more).contains(&charged.1),
                "{case}: {charged:?} {real:?}"
            );
            merges += 1;
        }
        assert!(
            merges > 0 || option != 0,
            "{destination}: the kernel merges no UDP packets"
        );
        println!("{destination}, option {option}: {merges} merged packets");
    }
    seen.expect_shown(&hosts, "eth0:out");
}

/// Sends two megabytes from one host to an address of the other over this listener's protocol.
fn stream(listener: TcpListener, sending: TcpStream) {
    const BYTES: usize = 2_000_000;
    let reading = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let timeout = Some(Duration::from_secs(30));
        stream.set_read_timeout(timeout).unwrap();
        let mut block = vec![0; 1 << 16];
        let mut left = BYTES;
        while left > 0 {
            left -= stream.read(&mut block).unwrap();
        }
        // It answers, so that the sender does not close before everything has arrived.
        stream.write_all(b"x").unwrap();
    });
    let mut sending = sending;
    let block = vec![0x5a; 50_000];
    (0..BYTES / block.len()).for_each(|_| sending.write_all(&block).unwrap());
    sending.read_exact(&mut [0]).unwrap();
    reading.join().unwrap();
}

/// Sends two megabytes over TCP to this address of the receiver. The sender's socket has these options.
pub fn send_tcp(
    sender: &Host,
    receiver: &Host,
    destination: IpAddr,
    option: &(libc::c_int, Vec<u8>),
) {
    let listener = on(receiver, || TcpListener::bind((destination, 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let sending = on(sender, || TcpStream::connect((destination, port)).unwrap());
    if option.0 != 0 {
        set_option(&sending, libc::IPPROTO_IPV6, option.0, &option.1).unwrap();
    }
    stream(listener, sending);
}

/// Sends two megabytes over SCTP.
pub fn send_sctp(sender: &Host, receiver: &Host, destination: Ipv4Addr) {
    let [a, b, c, d] = destination.octets();
    let address = SockaddrIn::new(a, b, c, d, 7_000);
    let listener = on(receiver, || {
        let socket = raw::sctp().unwrap();
        bind(socket.as_raw_fd(), &address).unwrap();
        listen(&socket, Backlog::MAXCONN).unwrap();
        TcpListener::from(socket)
    });
    let sending = on(sender, || {
        let socket = raw::sctp().unwrap();
        connect(socket.as_raw_fd(), &address).unwrap();
        TcpStream::from(socket)
    });
    stream(listener, sending);
}

/// Waits until limiter has seen what the host has sent since these counts. `header`: bytes of each packet that the
/// sender does not count.
pub fn agree(seen: &Seen, sender: &Host, before: (Size, Size), header: u64) -> Size {
    let (mut charged, mut real) = ((0, 0), (0, 0));
    for _ in 0..200 {
        charged = minus(seen.now(), before.0);
        real = minus(sent(sender), before.1);
        real.1 += real.0 * header;
        if charged == real {
            return real;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("charged {charged:?}, is {real:?}");
}

#[test]
fn tcp_segments_of_a_local_user_count_as_on_the_wire() {
    need_tcx!();
    let hosts = Hosts::of_both_families();
    cut_before_the_wire(&hosts.server);
    report_at_once(&hosts.server);
    wait_for_silence(&hosts.server);
    hosts.run(&format!("attach eth0:out {LIMIT}"));
    let seen = Seen::of(&hosts, "eth0:out");
    let options = header_options(CLIENT_IPV6);
    // The client takes no packets with a routing header.
    let options = options
        .into_iter()
        .filter(|(option, _)| *option != IPV6_RTHDR);
    let mut all: Vec<_> = options.map(|option| (CLIENT_IPV6, option)).collect();
    all.push((CLIENT, (0, Vec::new())));
    for (destination, option) in all {
        let before = seen.with_sent(&hosts.server);
        send_tcp(&hosts.server, &hosts.client, destination, &option);
        let real = agree(&seen, &hosts.server, before, 0);
        println!("{destination}, option {}: {real:?}", option.0);
        assert!(real.0 > 1_000, "{real:?}");
    }
    seen.expect_shown(&hosts, "eth0:out");
}
