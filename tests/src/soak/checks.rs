//! Checks: the bounds of sources, the sums of counters, the memory of processes.

use std::{collections::BTreeMap, net::IpAddr, time::Instant};

use nix::unistd::Pid;
use serde_json::Value;

use super::{
    Soak,
    changes::{BURST, RATE},
    wire::{Role, Source, lost},
};
use crate::{
    eventually, number,
    processes::{descriptors_of, status_of},
};

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

/// Readings of each process, about one per second: kilobytes of memory, and open descriptors.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<&'static str, Vec<[u64; 2]>>);

/// Maximum growth of a process in kilobytes and descriptors: less than a leak over many rounds, more than an
/// allocator's variation.
const MOST: [u64; 2] = [1_024, 2];

impl Memory {
    /// Takes a reading of a process.
    pub fn note(&mut self, name: &'static str, process: Pid) {
        let memory = status_of(process, "VmRSS");
        let memory = memory.trim_end_matches(" kB").parse().unwrap();
        let readings = self.0.entry(name).or_default();
        readings.push([memory, descriptors_of(process) as u64]);
    }

    /// Panics if a process has grown. Compares the minima of the last quarter and of the quarter before the middle:
    /// commands that run during a reading add memory and descriptors for a short time; a leak raises the minimum too.
    pub fn expect_flat(&self) {
        for (name, readings) in self.0.iter().filter(|(_, readings)| readings.len() >= 12) {
            let quarter = readings.len() / 4;
            let (early, late) = (&readings[quarter..][..quarter], &readings[3 * quarter..]);
            for (index, most) in MOST.iter().enumerate() {
                let least = |part: &[[u64; 2]]| part.iter().map(|reading| reading[index]).min();
                let allowed = least(early).map(|least| least + most);
                assert!(least(late) <= allowed, "{name} has grown: {readings:?}");
            }
        }
    }
}
