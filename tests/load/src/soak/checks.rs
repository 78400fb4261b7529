//! Checks: the bounds of sources, the sums of counters.

use std::{net::IpAddr, time::Instant};

use serde_json::Value;

use super::{
    changes::{BURST, RATE},
    state::Soak,
    wire::{Role, Source, lost},
};
use limiter_tests::{eventually, number};

/// The bounds of sources: at most burst + rate × t passes between any two readings.
#[derive(Debug)]
pub struct Bounds<'s> {
    began: Instant,
    each: Vec<Bound<'s>>,
}

#[derive(Debug)]
struct Bound<'s> {
    source: &'s Source,
    /// Minimum of packets passed minus refill, over all readings.
    least: f64,
    /// Share of burst + rate × t since the beginning that passed.
    used: f64,
}

impl<'s> Bounds<'s> {
    /// Bounds of the sources that no command favours.
    pub fn new(soak: &'s Soak<'_>) -> Self {
        let sources = soak.wire.of(&[Role::Heavy, Role::Denied, Role::Banned]);
        let bound = |source| Bound {
            source,
            least: 0.0,
            used: 0.0,
        };
        Self {
            began: soak.began,
            each: sources.map(bound).collect(),
        }
    }

    /// Takes a reading. It includes all packets that passed before `before`, and none that passed after `after`.
    pub fn check(&mut self, soak: &Soak<'_>) {
        let before = self.began.elapsed().as_secs_f64();
        soak.wire.settle(soak.hosts);
        let passed = self.each.iter().map(|bound| bound.source.passed() as f64);
        let passed: Vec<f64> = passed.collect();
        let after = self.began.elapsed().as_secs_f64();
        let granted = f64::from(BURST) + f64::from(RATE) * after;
        for (bound, passed) in self.each.iter_mut().zip(passed) {
            let most = granted + bound.least;
            assert!(
                passed <= most,
                "{}: {passed} packets passed until {after:.6} s, but burst + rate × t allows {most:.3}",
                bound.source.address
            );
            bound.least = bound.least.min(passed - f64::from(RATE) * before);
            if soak.goes_on() {
                bound.used = passed / granted;
            }
        }
        soak.count("check of the bounds");
    }

    /// The used shares since the beginning.
    pub fn used(&self) -> impl Iterator<Item = (IpAddr, f64)> {
        let each = self.each.iter();
        each.map(|bound| (bound.source.address, bound.used))
    }
}

/// Panics unless the counters of `status --json` add up.
pub fn expect_sums(status: &Value) {
    for unit in ["packets", "bytes"] {
        let counted = |name: &str| number(&status[name][unit]);
        assert_eq!(
            counted("seen"),
            counted("passed") + counted("dropped"),
            "{unit}: {status}"
        );
        let drops = status["drops"].as_object().unwrap().values();
        let drops: u64 = drops.map(|count| number(&count[unit])).sum();
        assert_eq!(counted("dropped"), drops, "{unit}: {status}");
    }
    let sources = |name: &str| number(&status["sources"][name]);
    assert!(sources("entries") <= sources("capacity"), "{status}");
}

/// Panics unless the program has seen every packet sent, and every packet that it passed has arrived.
pub fn expect_all_seen(soak: &Soak<'_>) {
    let (sent, lost) = (soak.wire.sent(), lost(soak.hosts));
    eventually("the program has seen all sent packets", || {
        number(&soak.hosts.status()["seen"]["packets"]) + lost >= sent
    });
    soak.wire.settle(soak.hosts);
    let status = soak.hosts.status();
    let packets = |name: &str| number(&status[name]["packets"]);
    assert!(packets("seen") <= sent, "{sent} were sent: {status}");
    assert_eq!(soak.wire.received(), (packets("passed"), 0), "{status}");
}
