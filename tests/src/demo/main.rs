//! `cargo xtask demo`: the main job with real packets and the real command. Two hosts, a limit of 5/s with a burst of
//! 10 on one of them, a polite client and two flooders on the other.
//!
//! The hosts and their bpffs have no name outside this process, so the demo leaves nothing behind, however it ends.

mod result;
mod traffic;

use std::{
    io::{IsTerminal as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use limiter_tests::{
    hosts::Hosts,
    testbed::{Address, INTERFACE},
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use result::{Outcome, Row};
use traffic::{Receiver, Sender};

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
/// Time between two looks at the counters.
const INTERVAL: Duration = Duration::from_millis(500);

/// A sender.
struct Client {
    name: &'static str,
    /// The client's addresses, which share one bucket.
    sources: Vec<IpAddr>,
    per_second: u32,
}

fn clients() -> [Client; 3] {
    let subnet = (1..=8)
        .map(|i| IpAddr::from([0x2001, 0xdb8, 0, 0x66, 0, 0, 0, i]))
        .collect();
    [
        Client {
            name: "polite",
            sources: vec![[192, 0, 2, 10].into()],
            per_second: 4,
        },
        Client {
            name: "flooder",
            sources: vec![[192, 0, 2, 66].into()],
            per_second: 2_000,
        },
        Client {
            name: "flooder, 8 addresses of a /64",
            sources: subnet,
            per_second: 2_000,
        },
    ]
}

const SERVER_IPV6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0x66, 0xffff, 0, 0, 1);
const SERVER: [Address; 2] = [
    Address(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 24),
    Address(IpAddr::V6(SERVER_IPV6), 64),
];

fn main() -> Result<()> {
    let Args { duration } = Args::parse();
    own_bpffs().context("the demo makes network and mount namespaces: it needs root")?;
    println!(
        "two hosts in network namespaces, joined by a veth pair; Ctrl-C ends the demo and leaves nothing behind"
    );
    let clients = clients();
    let prefix = |address: &IpAddr| if address.is_ipv4() { 24 } else { 64 };
    let addresses: Vec<_> = clients
        .iter()
        .flat_map(|client| &client.sources)
        .map(|address| Address(*address, prefix(address)))
        .collect();
    let hosts = Hosts::with(&SERVER, &addresses);
    let command = format!("attach {INTERFACE} --rate {RATE} --burst {BURST}");
    println!("# limiter {command}");
    println!("{}", hosts.run(command.as_str()));
    let last = flood(&hosts, &clients, duration)?;
    println!("\n{}", last.conclusion());
    ensure!(
        last.agrees(),
        "the numbers are not as expected, perhaps because other programs use the CPUs: run it again, and report a bug if it fails again"
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

/// Sends for `duration` and shows the counters meanwhile. Returns the final ones.
fn flood(hosts: &Hosts, clients: &[Client], duration: Duration) -> Result<Outcome> {
    let receiver = Receiver::start(&hosts.server.namespace)?;
    let start = |client: &Client| {
        let target = SERVER[usize::from(client.sources[0].is_ipv6())].0;
        let namespace = &hosts.client.namespace;
        Sender::start(namespace, &client.sources, target, client.per_second)
    };
    let senders: Vec<Arc<Sender>> = clients.iter().map(start).collect::<Result<_>>()?;
    let counters = |elapsed: Duration| {
        let rows = clients.iter().zip(&senders);
        Outcome {
            elapsed,
            rows: rows
                .map(|(client, sender)| row(client, sender, &receiver, hosts))
                .collect(),
        }
    };
    let mut screen = Screen::default();
    let start = Instant::now();
    while start.elapsed() < duration {
        thread::sleep(INTERVAL.min(duration.saturating_sub(start.elapsed())));
        screen.show(&counters(start.elapsed()))?;
    }
    for sender in &senders {
        sender.stop();
    }
    // Time for packets on the wire to arrive.
    thread::sleep(Duration::from_millis(200));
    let last = counters(duration);
    screen.printed = None;
    screen.show(&last)?;
    Ok(last)
}

fn row(client: &Client, sender: &Sender, receiver: &Receiver, hosts: &Hosts) -> Row {
    let source = client.sources[0];
    let check = hosts.json(format!("check {INTERFACE} {source} --json").as_str());
    let limit = &check["limits"][0];
    let (sent, sending_for) = sender.progress();
    Row {
        name: client.name,
        source: limit["bucket"].as_str().unwrap_or_default().to_owned(),
        sent,
        passed: (client.sources.iter())
            .map(|address| receiver.received(*address))
            .sum(),
        dropped: limit["dropped_packets"].as_u64().unwrap_or_default(),
        sending_for,
    }
}

/// The table's output. On a terminal it is redrawn in place; elsewhere it is printed every few seconds.
#[derive(Default)]
struct Screen {
    lines: usize,
    printed: Option<Instant>,
}

impl Screen {
    const INTERVAL: Duration = Duration::from_secs(3);

    fn show(&mut self, outcome: &Outcome) -> Result<()> {
        let mut out = std::io::stdout();
        let table = outcome.table();
        if out.is_terminal() {
            // To the first line of the table, and clear the screen from there on (ECMA-48 CPL and ED).
            if self.lines > 0 {
                write!(out, "\x1b[{}F\x1b[J", self.lines)?;
            }
            self.lines = table.lines().count();
        } else if self
            .printed
            .is_some_and(|printed| printed.elapsed() < Self::INTERVAL)
        {
            return Ok(());
        }
        self.printed = Some(Instant::now());
        Ok(out.write_all(table.as_bytes())?)
    }
}
