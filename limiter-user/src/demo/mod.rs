//! Demonstrates the main job with real packets: two hosts, a limit of 5/s with a burst of 10 on one of them, a polite
//! client and two flooders on the other.
//!
//! Nothing is pinned, and nothing has a name outside this process. The demo leaves nothing behind, however it ends.

mod result;
mod traffic;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    config::{Key, Limit, Mode, Settings, compile::FIRST_SLOT, settings::DEFAULT_LIMIT},
    kernel::{
        ops::{attach::attach_unpinned, set::Wanted},
        program::maps::Tables,
    },
    testbed::{Address, Pair},
};
pub use result::Outcome;
use result::Row;
use traffic::{Receiver, Sender};

/// Rate of the limit, in packets per second.
pub const RATE: u64 = 5;
/// Burst of the limit, in packets.
pub const BURST: u64 = 10;

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

fn settings() -> anyhow::Result<Settings> {
    let limit = Limit {
        burst: Some(BURST.to_string().parse()?),
        ..Limit::new(DEFAULT_LIMIT, RATE.to_string().parse()?)
    };
    Ok(Settings {
        mode: Mode::Native,
        max_sources: 1_024,
        limits: vec![limit],
        ..Settings::default()
    })
}

/// Runs the traffic for `duration`. Calls `show` with the counters several times per second, then once more with the
/// final counters, which are returned.
pub fn run(
    duration: Duration,
    mut show: impl FnMut(&Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let clients = clients();
    let prefix = |address: &IpAddr| if address.is_ipv4() { 24 } else { 64 };
    let addresses: Vec<_> = clients
        .iter()
        .flat_map(|client| &client.sources)
        .map(|address| Address(*address, prefix(address)))
        .collect();
    let hosts = Pair::new(&SERVER, &addresses)?;

    let wanted = Wanted::new(settings()?);
    let server = hosts.left.namespace.clone();
    let mut linked = server.block_on(|| attach_unpinned(crate::testbed::INTERFACE, &wanted))??;
    let tables = linked.program.tables()?;
    let receiver = Receiver::start(&server)?;
    let start = |client: &Client| {
        let target = SERVER[usize::from(client.sources[0].is_ipv6())].0;
        let clients = &hosts.right.namespace;
        Sender::start(clients, &client.sources, target, client.per_second)
    };
    let senders = clients.iter().map(start);
    let senders: Vec<Arc<Sender>> = senders.collect::<anyhow::Result<_>>()?;

    let counters = |elapsed: Duration| {
        let rows = clients.iter().zip(&senders);
        let rows = rows.map(|(client, sender)| row(client, sender, &receiver, &tables));
        Outcome {
            mode: linked.mode,
            elapsed,
            rows: rows.collect(),
        }
    };
    let start = Instant::now();
    while start.elapsed() < duration {
        thread::sleep(Duration::from_millis(200).min(duration.saturating_sub(start.elapsed())));
        show(&counters(start.elapsed()))?;
    }
    for sender in &senders {
        sender.stop();
    }
    // Time for packets on the wire to arrive.
    thread::sleep(Duration::from_millis(200));
    let last = counters(duration);
    show(&last)?;
    Ok(last)
}

fn row(client: &Client, sender: &Sender, receiver: &Receiver, tables: &Tables) -> Row {
    let by_source = Key::default();
    let key = by_source.of(FIRST_SLOT, client.sources[0], 0);
    let source = tables.sets.source(&key).unwrap_or_default();
    let (sent, sending_for) = sender.progress();
    Row {
        name: client.name,
        source: by_source.show(&key),
        sent,
        passed: (client.sources.iter())
            .map(|address| receiver.received(*address))
            .sum(),
        dropped: source.refused,
        sending_for,
    }
}
