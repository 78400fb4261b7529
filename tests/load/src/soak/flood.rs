//! The senders of the packets.

use std::{
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{cpus::pin_to, raw::Raw};

use super::state::Soak;

/// Sends from the slow sources.
pub fn slow(soak: &Soak<'_>) {
    while soak.goes_on() {
        soak.wire.round(soak.hosts);
    }
}

/// Sends from one processor at the plan's rate, never faster to catch up. Half of the sources are made up.
pub fn flood(soak: &Soak<'_>, cpu: usize) {
    /// Interval of sends. The wire can take all frames of an interval at once.
    const TICK: Duration = Duration::from_millis(2);
    /// The IPv4 source, and the end of an IPv6 source's /64 prefix.
    const SOURCE: std::ops::Range<usize> = 26..30;
    pin_to(cpu);
    let wire = Raw::to_send(&soak.hosts.client);
    let usual = soak.wire.usual(soak.hosts);
    let mut usual = usual.iter().cycle();
    let mut made_up =
        ["10.0.0.0", "2001:db8::1"].map(|source| soak.hosts.frame(source.parse().unwrap()).bytes());
    let mut random = fastrand::Rng::with_seed(cpu as u64);
    let pairs = soak.plan.packets_per_second / 500 / 2;
    while soak.goes_on() {
        let next = Instant::now() + TICK;
        for _ in 0..pairs {
            // A quarter has IPv6. The checksum of IPv4 headers is wrong: the server drops the frames behind limiter.
            let (frame, from) = match random.u8(..4) {
                0 => (&mut made_up[1], random.u32(..)),
                _ => (&mut made_up[0], 10 << 24 | random.u32(..1 << 24)),
            };
            frame[SOURCE].copy_from_slice(&from.to_be_bytes());
            wire.send(frame);
            wire.send(usual.next().unwrap());
        }
        let sent = u64::from(2 * pairs);
        soak.wire.count(sent);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
