//! New TCP clients during a flood of made-up sources: how many connect, and how soon. The clients are sockets of the
//! kernel, each with an address of its own, and retransmit as Linux does.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream},
    ops::Range,
    os::fd::AsRawFd as _,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::sys::{
    socket::{
        AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
    },
    time::TimeVal,
};

use crate::{
    foreign::{Foreign, PLAIN},
    hosts::{CLIENT, CLIENT_IPV6, Hosts, SERVER, on},
    packet::{Ends, Segment},
    raw::Raw,
    testbed::INTERFACE,
};

// Parts of a frame.
const CHECKSUM: Range<usize> = 24..26;
const TCP_CHECKSUM: Range<usize> = 50..52;
const SOURCE: Range<usize> = 26..30;

/// Port of the server's listener.
pub const PORT: u16 = 443;
/// The addresses that the flood sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Each address once.
    Never,
    /// Each address twice, one right after the other.
    AtOnce,
    /// Each address twice, a second apart.
    AfterASecond,
}

/// A flood of made-up sources.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Packets a second.
    pub per_second: u64,
    /// The addresses.
    pub repeats: Repeats,
    /// The packets.
    pub packets: Packets,
}

/// The packets of a flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Packets {
    /// UDP to a port that nobody listens on.
    Udp,
    /// SYNs to the listener.
    Syn,
    /// SYNs to the listener from hping3, which does not repeat its addresses on purpose.
    Hping3,
}

/// Clients that come evenly spread.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// Their number.
    pub number: u32,
    /// The flood before the first one.
    pub after: Duration,
    /// The time until the last one comes.
    pub over: Duration,
    /// The flood stops when the first one comes.
    pub behind_the_flood: bool,
    /// Each client asks a web server for a page, and waits for the answer.
    pub asks: bool,
}

/// The longest time that a client waits.
const PATIENCE: Duration = Duration::from_millis(3_600);

/// The time that each client needed to connect; none if it did not.
#[derive(Clone, Debug)]
pub struct Times(Vec<Option<Duration>>);

impl Times {
    /// The share of clients that connected within this time, in percent.
    pub fn percent_within(&self, milliseconds: u64) -> f64 {
        let within = Duration::from_millis(milliseconds);
        let connected = self.0.iter().flatten().filter(|time| **time <= within);
        100.0 * connected.count() as f64 / self.0.len() as f64
    }

    /// The median of those that connected.
    pub fn median(&self) -> Duration {
        let mut times: Vec<_> = self.0.iter().flatten().collect();
        times.sort();
        times
            .get(times.len() / 2)
            .map_or(Duration::ZERO, |time| **time)
    }
}

/// Writes `net.ipv4.tcp_syncookies` of the server.
pub fn set_cookies(hosts: &Hosts, value: u32) {
    on(&hosts.server, || {
        fs::write("/proc/sys/net/ipv4/tcp_syncookies", value.to_string()).unwrap();
    });
}

/// Prepares both hosts for answers by SYN cookies to sources anywhere, which the server reaches by the client.
pub fn prepare_answers(hosts: &Hosts) {
    prepare_wire(hosts);
    let mut routes = format!("route add default via {CLIENT}\n");
    let file = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6");
    let has_no_ipv6 = on(&hosts.server, || fs::read_to_string(file));
    if has_no_ipv6.is_ok_and(|text| text.trim() == "0") {
        routes += &format!("route add default via {CLIENT_IPV6}\n");
    }
    hosts.server.namespace.ip(&routes).unwrap();
}

/// Lets the server make SYN cookies, and the program's answers reach the client.
pub fn prepare_wire(hosts: &Hosts) {
    set_cookies(hosts, 2);
    // XDP_TX reaches a veth only with a native program (veth_xdp_flush, drivers/net/veth.c).
    let program = Foreign::load(PLAIN);
    let id = program.id.to_string();
    on(&hosts.client, || {
        let words = ["net", "attach", "xdpdrv", "id", &id, "dev", INTERFACE];
        let done = Command::new("bpftool").args(words).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    });
}

/// Lets clients connect to the server during a flood.
pub fn connect_during(hosts: &Hosts, flood: Option<Flood>, clients: Clients) -> Times {
    let lines = "link set lo up\nroute add local 10.77.0.0/16 dev lo\n";
    hosts.client.namespace.ip(lines).unwrap();
    let lines = "route add 10.77.0.0/16 via 192.0.2.2 dev eth0\n";
    hosts.server.namespace.ip(lines).unwrap();
    if !clients.asks {
        let listener = on(&hosts.server, || {
            TcpListener::bind(("0.0.0.0", PORT)).unwrap()
        });
        // It ends with the process, or at the first error.
        thread::spawn(move || while listener.accept().is_ok() {});
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            on(&hosts.client, || {
                flood.map_or(0, |flood| send(hosts, flood, &over))
            })
        });
        thread::sleep(clients.after);
        over.store(clients.behind_the_flood, Ordering::Relaxed);
        let times = on(&hosts.client, || connect_all(clients));
        over.store(true, Ordering::Relaxed);
        let sent = sender.join().unwrap();
        if let Some(flood) = flood {
            let time = clients.after + clients.over;
            eprintln!("{flood:?}: {sent} packets in at least {time:?}");
        }
        Times(times)
    })
}

/// Sends the flood until it is over, evenly: between two packets of a burst, no token comes back. Returns the number of
/// packets.
fn send(hosts: &Hosts, flood: Flood, over: &AtomicBool) -> u64 {
    if flood.packets == Packets::Hping3 {
        return send_by_hping3(flood, over);
    }
    let wire = Raw::on(&hosts.client.namespace, INTERFACE).unwrap();
    let source = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let ends = Ends {
        macs: (hosts.client.mac, hosts.server.mac),
        from: SocketAddr::new(source, 40_000),
        to: SocketAddr::new(SERVER, PORT),
    };
    let mut frame = if flood.packets == Packets::Syn {
        ends.tcp(Segment::Syn)
    } else {
        hosts.frame(source).bytes()
    };
    // The checksums without the source, whose words are 0 so far. UDP may have none.
    let places = match flood.packets {
        Packets::Syn => [CHECKSUM, TCP_CHECKSUM],
        _ => [CHECKSUM, CHECKSUM],
    };
    let sums = places.clone().map(|place| {
        let place: [u8; 2] = frame[place].try_into().unwrap();
        u32::from(!u16::from_be_bytes(place))
    });
    let mut send = |number: u64| {
        // Each number comes once, because the factor is odd.
        let spread = (number as u32).wrapping_mul(0x9e37_79b1) & 0x0fff_ffff;
        let source = u32::from_be_bytes([16, 0, 0, 0]) + spread;
        frame[SOURCE].copy_from_slice(&source.to_be_bytes());
        for (place, sum) in places.clone().into_iter().zip(sums) {
            let sum = sum + (source >> 16) + (source & 0xffff);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            frame[place].copy_from_slice(&(!sum as u16).to_be_bytes());
        }
        wire.send(&frame);
    };
    let begin = Instant::now();
    let (mut next, mut sent) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let due = u128::from(flood.per_second) * begin.elapsed().as_micros() / 1_000_000;
        if due < sent.into() {
            // A sleep would be too long, and the flood would come in bursts.
            std::hint::spin_loop();
            continue;
        }
        send(next);
        sent += 1;
        let again = match flood.repeats {
            Repeats::Never => None,
            Repeats::AtOnce => Some(next),
            Repeats::AfterASecond => u64::checked_sub(next, flood.per_second / 2),
        };
        if let Some(again) = again {
            send(again);
            sent += 1;
        }
        next += 1;
    }
    sent
}

/// Lets hping3 send SYNs with right checksums until the flood is over. Returns the number of packets that the interface
/// has sent.
fn send_by_hping3(flood: Flood, over: &AtomicBool) -> u64 {
    let sent = || {
        let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let (_, counters) = devices.split_once(&format!("{INTERFACE}:")).unwrap();
        let sent = counters.split_whitespace().nth(9).unwrap();
        sent.parse::<u64>().unwrap()
    };
    let (port, interval) = (
        PORT.to_string(),
        format!("u{}", 1_000_000 / flood.per_second),
    );
    let words = [
        "-q",
        "-n",
        "-S",
        "--rand-source",
        "-p",
        &port,
        "-i",
        &interval,
    ];
    let mut hping3 = Command::new("hping3");
    let hping3 = hping3
        .args(words)
        .arg(SERVER.to_string())
        .stdout(Stdio::null());
    let before = sent();
    let mut hping3 = hping3.stderr(Stdio::null()).spawn().unwrap();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10));
    }
    hping3.kill().unwrap();
    hping3.wait().unwrap();
    sent() - before
}

fn connect_all(clients: Clients) -> Vec<Option<Duration>> {
    let begin = Instant::now();
    let running: Vec<_> = (0..clients.number)
        .map(|number| {
            let asks = clients.asks;
            let due = clients.over * number / clients.number;
            thread::sleep(due.saturating_sub(begin.elapsed()));
            // The thread has this one's network namespace.
            thread::spawn(move || connect_one(number, asks))
        })
        .collect();
    running
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect()
}

fn connect_one(number: u32, asks: bool) -> Option<Duration> {
    let own = Ipv4Addr::from(u32::from_be_bytes([10, 77, 0, 1]) + number);
    let IpAddr::V4(server) = SERVER else {
        unreachable!("IPv4");
    };
    let client = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    let patience = TimeVal::new(
        PATIENCE.as_secs() as i64,
        i64::from(PATIENCE.subsec_micros()),
    );
    setsockopt(&client, sockopt::SendTimeout, &patience).unwrap();
    bind(
        client.as_raw_fd(),
        &SockaddrIn::from(SocketAddrV4::new(own, 0)),
    )
    .unwrap();
    let begin = Instant::now();
    let connected = connect(
        client.as_raw_fd(),
        &SockaddrIn::from(SocketAddrV4::new(server, PORT)),
    );
    let mut stream = TcpStream::from(client);
    let answered = !asks || {
        let asked = stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n");
        asked.is_ok() && stream.read_exact(&mut [0; 15]).is_ok()
    };
    (connected.is_ok() && answered).then(|| begin.elapsed())
}
