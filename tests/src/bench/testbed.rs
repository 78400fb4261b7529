//! Builds two hosts on a wire, and counts their traffic.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, TcpListener, UdpSocket},
    os::fd::{AsRawFd as _, OwnedFd},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use limiter_tests::{
    service::counter,
    testbed::{Address, Host, Pair},
};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket,
    sockopt::RcvBuf,
};

use super::{
    case::{Case, Family},
    mix::{CLIENT, Traffic},
};

/// Counters of the traffic until now.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// Packets received from the wire, whatever their verdict.
    pub arrived: u64,
    /// Packets that the stack has delivered to the socket, or has discarded because of their source.
    pub delivered: u64,
}

/// A host that receives packets, and one that sends them.
#[derive(Debug)]
pub struct Testbed {
    /// The host with the subject.
    pub server: Host,
    /// The host with the sender.
    pub client: Host,
    /// The receiving socket. Its buffer is full, so that every packet is counted and discarded.
    _sink: UdpSocket,
    /// The service that a mix is for, and its connections.
    _service: Vec<OwnedFd>,
}

impl Testbed {
    /// Builds the hosts of a case.
    pub fn build(case: Case) -> Result<Self> {
        let cpus = case.cpus.count();
        let addresses = |host: u8| {
            let ipv4 = Ipv4Addr::new(192, 0, 2, host);
            let ipv6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into());
            [Address(ipv4.into(), 24), Address(ipv6.into(), 64)]
        };
        let pair = Pair::new(&addresses(1), &addresses(2))?;
        let (server, client) = (pair.left, pair.right);
        // With IPv6, the client would report its multicast groups, which adds packets. Its frames need no address.
        let switch = "/proc/sys/net/ipv6/conf/eth0/disable_ipv6";
        client.namespace.run(|| fs::write(switch, "1"))??;
        // A device receives redirected frames only if it polls: with a native program, or with receive offload, which
        // most network cards have.
        on(&server, "ethtool -K eth0 gro on")?;
        on(&server, &format!("ethtool -L eth0 rx {cpus}"))?;
        // Some systems refuse packets from an address without a route.
        on(&server, "ip -4 route add default dev eth0")?;
        on(&server, "ip -6 route add default dev eth0")?;
        let sink = server.namespace.run(open_sink)??;
        let service = match case.traffic {
            Traffic::Plain => Vec::new(),
            _ => prepare_for_mix(case, &server, &client)?,
        };
        Ok(Self {
            server,
            client,
            _sink: sink,
            _service: service,
        })
    }

    /// The counters until now.
    pub fn counters(&self) -> Result<Counters> {
        let read = |path: &str| fs::read_to_string(format!("/proc/thread-self/net/{path}"));
        let (devices, ipv6) = self
            .server
            .namespace
            .run(|| (read("dev"), read("snmp6").unwrap_or_default()))?;
        let received = value(&devices?, "eth0:", 1).context("no counters of the interface")?;
        let ipv6 = value(&ipv6, "Udp6RcvbufErrors", 0).unwrap_or(0);
        Ok(Counters {
            arrived: received,
            delivered: counter(&self.server, "Udp:", "RcvbufErrors")
                + counter(&self.server, "TcpExt:", "IPReversePathFilter")
                + ipv6,
        })
    }
}

/// Opens the sockets of the service that a mix is for, and its connections. From then on, the server's stack discards
/// packets of all sources where it looks for their route, which is behind the hooks of all subjects: it answers none.
fn prepare_for_mix(case: Case, server: &Host, client: &Host) -> Result<Vec<OwnedFd>> {
    const FILTER: &str = "/proc/sys/net/ipv4/conf/eth0/rp_filter";
    on(server, "ip link set lo up")?;
    on(client, "ip link set lo up")?;
    on(client, "ip -4 route add local 128.0.0.0/2 dev lo")?;
    on(server, "ip -4 route add 128.0.0.0/2 via 192.0.2.2")?;
    let mut sockets = Vec::new();
    if let Some(port) = case.traffic.connected() {
        let all = (Ipv4Addr::UNSPECIFIED, port);
        let listen = || Ok::<_, io::Error>((TcpListener::bind(all)?, UdpSocket::bind(all)?));
        let (listener, udp) = server.namespace.run(listen)??;
        let connect = || {
            (0..case.sources.count()).try_for_each(|source| {
                sockets.push(connect_from(source, port)?);
                sockets.push(listener.accept()?.0.into());
                Ok::<_, anyhow::Error>(())
            })
        };
        let connected = client.namespace.run(connect)?;
        connected.context("opening the connections of the mix")?;
        sockets.extend([listener.into(), udp.into()]);
    }
    on(server, "ip -4 route replace 128.0.0.0/2 dev lo")?;
    server.namespace.run(|| fs::write(FILTER, "1"))??;
    Ok(sockets)
}

/// Connects a source to a port of the server.
fn connect_from(number: u32, port: u16) -> Result<OwnedFd> {
    let IpAddr::V4(first) = Family::Ipv4.first_source() else {
        bail!("no IPv4 address");
    };
    let source = Ipv4Addr::from_bits(first.to_bits() + number);
    let address = |ip, port| SockaddrIn::from(SocketAddrV4::new(ip, port));
    let flags = SockFlag::SOCK_CLOEXEC;
    let client = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    bind(client.as_raw_fd(), &address(source, CLIENT))?;
    connect(
        client.as_raw_fd(),
        &address(Ipv4Addr::new(192, 0, 2, 1), port),
    )?;
    Ok(client)
}

fn open_sink() -> Result<UdpSocket> {
    // The discard service.
    let socket = UdpSocket::bind(("::", 9)).context("opening a socket")?;
    // The kernel rounds this up to its minimum.
    setsockopt(&socket, RcvBuf, &0)?;
    Ok(socket)
}

/// A number of the line that begins with `name`.
fn value(text: &str, name: &str, position: usize) -> Option<u64> {
    let mut lines = text.lines().map(str::trim);
    let numbers = lines.find_map(|line| line.strip_prefix(name))?;
    numbers.split_whitespace().nth(position)?.parse().ok()
}

/// Runs a command on a host. It must succeed.
pub fn on(host: &Host, line: &str) -> Result<()> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().context("no command")?);
    command.args(words);
    let output = host.namespace.run(|| command.output())?;
    let output = output.with_context(|| format!("`{line}` cannot be run"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let first = text.lines().next().unwrap_or("no message");
    ensure!(output.status.success(), "`{line}` failed: {first}");
    Ok(())
}
