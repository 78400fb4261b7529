//! Sends the packets: a flood on each of two processors, and sources that send less than their limit.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    Soak,
    frames::{Spoofed, slow as slow_sources, usual},
};
use crate::{cpus::pin_to, eventually, raw::Raw};

/// Counts of packets sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// Packets of the floods.
    pub flood: AtomicU64,
    /// Packets from each slow source, in order.
    pub slow: [AtomicU64; 6],
}

impl Sent {
    /// All packets sent.
    pub fn all(&self) -> u64 {
        let parts = [&self.flood].into_iter().chain(&self.slow);
        parts.map(|part| part.load(Ordering::SeqCst)).sum()
    }
}

/// Interval of a flood's sends. The wire can take all frames of an interval at once.
const TICK: Duration = Duration::from_millis(2);
/// Interval between two packets of a slow source: 20 per second.
const BETWEEN: Duration = Duration::from_millis(50);

/// Sends from one processor at the plan's rate, never faster to catch up. Half of the sources are made up.
pub fn flood(soak: &Soak<'_>, cpu: usize) {
    pin_to(cpu);
    let wire = Raw::to_send(&soak.hosts.client);
    let usual = usual(soak.hosts);
    let mut usual = usual.iter().cycle();
    let mut spoofed = Spoofed::new(soak.hosts, cpu as u64);
    let pairs = soak.plan.packets_per_second / 500 / 2;
    while soak.goes_on() {
        let next = Instant::now() + TICK;
        for _ in 0..pairs {
            wire.send(spoofed.next());
            wire.send(usual.next().unwrap());
        }
        let sent = u64::from(2 * pairs);
        soak.sent.flood.fetch_add(sent, Ordering::SeqCst);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Makes the slow sources known to the table: each sends more than once.
pub fn make_known(soak: &Soak<'_>) {
    let wire = Raw::to_send(&soak.hosts.client);
    (0..3).for_each(|_| round(soak, &wire));
}

/// Sends from the slow sources until the soak ends.
pub fn slow(soak: &Soak<'_>) {
    let wire = Raw::to_send(&soak.hosts.client);
    while soak.goes_on() {
        round(soak, &wire);
    }
}

fn round(soak: &Soak<'_>, wire: &Raw) {
    for (source, sent) in slow_sources().into_iter().zip(&soak.sent.slow) {
        wire.send(&soak.hosts.frame(source).bytes());
        sent.fetch_add(1, Ordering::SeqCst);
    }
    thread::sleep(BETWEEN);
}

/// Panics unless all packets of slow sources arrive.
pub fn expect_no_loss(soak: &Soak<'_>) {
    let sent = soak
        .sent
        .slow
        .each_ref()
        .map(|sent| sent.load(Ordering::SeqCst));
    let lost = soak.lost();
    for (source, sent) in slow_sources().into_iter().zip(sent) {
        eventually(&format!("{source} loses none of {sent} packets"), || {
            soak.arrivals.from(source) + lost >= sent
        });
    }
}
