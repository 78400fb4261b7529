//! `cargo xtask demo`: the main job with real packets and the real command. Two hosts, a limit of 5/s with a burst of
//! 10 on one of them, a polite client and two flooders on the other.
//!
//! The hosts and their bpffs have no name outside this process, so the demo leaves nothing behind, however it ends.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use limiter_tests::{
    hosts::Hosts,
    number,
    testbed::{Address, INTERFACE},
};
use limiter_user::show::{table::table, units::grouped};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// Demonstrate a limit under a flood, between network namespaces
#[derive(Debug, Parser)]
#[command(name = "demo")]
struct Args {
    /// Duration of the traffic, such as 10s
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
}

/// Rate of the limit, in packets per second.
const RATE: u64 = 5;
/// Burst of the limit, in packets.
const BURST: u64 = 10;
/// The port of the discard service, which does not answer.
const PORT: u16 = 9;

const SERVER_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0x66, 0xffff, 0, 0, 1);
const SERVER: [Address; 2] = [
    Address(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 24),
    Address(IpAddr::V6(SERVER_IPV6), 64),
];

/// A sender: its name, its addresses, which share one bucket, and its packets per second.
struct Client(&'static str, Vec<IpAddr>, u32);

fn clients() -> [Client; 3] {
    let subnet = (1..=8).map(|i| IpAddr::from([0x2001, 0xdb8, 0, 0x66, 0, 0, 0, i]));
    [
        Client("polite", vec![[192, 0, 2, 10].into()], 4),
        Client("flooder", vec![[192, 0, 2, 66].into()], 2_000),
        Client("flooder, 8 addresses of a /64", subnet.collect(), 2_000),
    ]
}

fn main() -> Result<()> {
    let Args { duration } = Args::parse();
    own_bpffs().context("the demo makes network and mount namespaces: it needs root")?;
    println!(
        "two hosts in network namespaces, joined by a veth pair; Ctrl-C ends the demo and leaves nothing behind"
    );
    let clients = clients();
    let sources = clients.iter().flat_map(|Client(_, sources, _)| sources);
    let address = |source: &IpAddr| Address(*source, if source.is_ipv4() { 24 } else { 64 });
    let hosts = Hosts::with(&SERVER, &sources.map(address).collect::<Vec<_>>());
    let command = format!("attach {INTERFACE} --mode native --rate {RATE} --burst {BURST}");
    println!("# limiter {command}\n{}", hosts.run(&command));
    println!("sending for {}", humantime::format_duration(duration));
    let (sent, received) = flood(&hosts, &clients, duration)?;
    let rows = clients.iter().zip(sent);
    let rows: Vec<_> = rows
        .map(|(client, sent)| row(&hosts, client, sent, &received))
        .collect();
    let columns = "CLIENT|SOURCE|SENT|PASSED|DROPPED|ALLOWED";
    let cells = rows.iter().map(|(cells, _)| cells.clone());
    println!("{}", table(columns, 2, cells));
    ensure!(
        rows.iter().all(|(_, agrees)| *agrees),
        "the numbers are not as expected, perhaps because other programs use the CPUs: run it again, and report a bug if it fails again"
    );
    println!(
        "The numbers of received packets are as expected: {BURST} at once, then {RATE} per second. The polite client lost no packet."
    );
    Ok(())
}

/// Mounts a bpffs that only this process and its children see.
fn own_bpffs() -> Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    let (mode, flags) = (Some("mode=0700"), MsFlags::empty());
    Ok(mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), flags, mode)?)
}

/// Packets that a client sent, and the time from the first to the last.
type Sent = (u64, Duration);

/// Packets received from each source.
type Received = HashMap<IpAddr, u64>;

/// Sends from all clients for `duration`.
fn flood(hosts: &Hosts, clients: &[Client], duration: Duration) -> Result<(Vec<Sent>, Received)> {
    let server = &hosts.server.namespace;
    let receiver = server.run(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)))??;
    // Longer than any pause of the polite client.
    receiver.set_read_timeout(Some(Duration::from_secs(1)))?;
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut received = Received::new();
            while let Ok((_, from)) = receiver.recv_from(&mut [0; 64]) {
                *received.entry(from.ip().to_canonical()).or_default() += 1;
            }
            received
        });
        let send = |client| scope.spawn(move || send(hosts, client, duration));
        let senders: Vec<_> = clients.iter().map(send).collect();
        let sent = senders.into_iter().map(|sender| sender.join().unwrap());
        let sent = sent.collect::<io::Result<Vec<Sent>>>()?;
        Ok((sent, receiving.join().unwrap()))
    })
}

/// Sends evenly spaced packets from a client's addresses in turn.
fn send(
    hosts: &Hosts,
    Client(_, sources, per_second): &Client,
    duration: Duration,
) -> io::Result<Sent> {
    let target = SocketAddr::new(SERVER[usize::from(sources[0].is_ipv6())].0, PORT);
    let open = |source: &IpAddr| {
        let socket = UdpSocket::bind(SocketAddr::new(*source, 0))?;
        socket.connect(target)?;
        Ok(socket)
    };
    let client = &hosts.client.namespace;
    let sockets: io::Result<Vec<_>> = client.run(|| sources.iter().map(open).collect())?;
    let (start, mut sent, mut last) = (Instant::now(), 0, Duration::ZERO);
    for (number, socket) in (0_u32..).zip(sockets?.iter().cycle()) {
        let due = Duration::from_secs(1) / *per_second * number;
        if due >= duration || start.elapsed() >= duration {
            break;
        }
        thread::sleep(due.saturating_sub(start.elapsed()));
        if socket.send(b"limiter").is_ok() {
            sent += 1;
            last = start.elapsed();
        }
    }
    Ok((sent, last))
}

/// The row of one client. True if every packet is accounted for, and the packets passed are as expected. One packet more
/// or less is allowed, because sending and arrival differ in time.
fn row(
    hosts: &Hosts,
    Client(name, sources, _): &Client,
    (sent, time): Sent,
    received: &Received,
) -> ([String; 6], bool) {
    let check = hosts.json(&format!("check {INTERFACE} {} --json", sources[0]));
    let limit = &check["limits"][0];
    let bucket = limit["bucket"].as_str().unwrap_or_default();
    let of_client = sources.iter().filter_map(|source| received.get(source));
    let (passed, dropped) = (of_client.sum::<u64>(), number(&limit["dropped_packets"]));
    // At most burst + rate × time may pass.
    let refilled = RATE as f64 * time.as_secs_f64();
    let allowed = (BURST + refilled as u64).min(sent);
    let agrees = passed.abs_diff(allowed) <= 1 && sent == passed + dropped;
    let [sent, passed, dropped, allowed] = [sent, passed, dropped, allowed].map(grouped);
    let [name, bucket] = [*name, bucket].map(str::to_owned);
    ([name, bucket, sent, passed, dropped, allowed], agrees)
}
