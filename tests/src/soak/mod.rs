//! Runs all functions at once, for any time, with constant checks.
//!
//! Two processors send packets of made-up, heavy and slow sources, and odd frames. Meanwhile, commands reload, change,
//! watch, scrape and query. The first failed check ends the soak with a panic.

mod arrivals;
mod bound;
mod commands;
mod configurations;
mod figures;
mod frames;
mod memory;
mod readers;
mod report;
mod senders;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use report::Report;

use crate::{
    SetOnDrop,
    command::{Outcome, binary},
    exporter::Exporter,
    files::Folder,
    hosts::{Hosts, on},
    number,
};
use arrivals::Arrivals;
use bound::Bounds;
use configurations::Configuration;
use memory::Memory;

/// Tokens per second of the limit that never changes.
pub const RATE: u32 = 50;
/// Burst of the limit that never changes.
pub const BURST: u32 = 100;

/// Message of a command that could not get the lock.
const LOCKED: &str = "another limiter command has held the lock";

/// Duration and load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Duration of traffic and commands.
    pub duration: Duration,
    /// Packets per second from each of two processors, approximately.
    pub packets_per_second: u32,
    /// Pause between two commands.
    pub pause: Duration,
    /// Report progress once a minute.
    pub reports_progress: bool,
}

/// State shared by all parts.
#[derive(Debug)]
struct Soak<'h> {
    plan: Plan,
    hosts: &'h Hosts,
    folder: Folder,
    arrivals: Arrivals,
    sent: senders::Sent,
    memory: Mutex<Memory>,
    /// Number of begun and ended reloads: odd while a reload is in progress.
    reloads: AtomicU64,
    done: Mutex<BTreeMap<&'static str, u64>>,
    ends: Instant,
    stop: AtomicBool,
}

impl Soak<'_> {
    /// True if the soak continues.
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && Instant::now() < self.ends
    }

    /// Counts an action.
    fn count(&self, what: &'static str) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done.entry(what).or_default() += 1;
    }

    fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while self.goes_on() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20).min(time));
        }
    }

    /// Runs `limiter` on the server. Repeats the command while other tests hold the machine's lock for too long.
    fn ask(&self, arguments: &[&str]) -> Outcome {
        loop {
            let outcome = self.hosts.limiter(arguments);
            if !(outcome.status == 1 && outcome.stderr.contains(LOCKED) && self.goes_on()) {
                return outcome;
            }
        }
    }

    /// Runs a command that must succeed, and counts it.
    fn limiter(&self, what: &'static str, arguments: &[&str]) -> String {
        let outcome = self.ask(arguments);
        outcome.expect(0);
        self.count(what);
        outcome.stdout
    }

    fn note_memory(&self, name: &str, process: u32) {
        self.memory.lock().unwrap().note(name, process);
    }

    /// Maximum number of packets that the wire dropped before the program. Packets are sent again if the kernel reports
    /// the drop.
    fn lost(&self) -> u64 {
        let mut ip = Command::new("ip");
        ip.args(["-s", "-j", "link", "show", "eth0"]);
        let output = on(&self.hosts.client, || ip.output()).unwrap();
        let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        number(&links[0]["stats64"]["tx"]["dropped"])
    }

    /// Runs `part`. If it fails, all other parts end too.
    fn part(&self, part: impl FnOnce(&Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part(self))) {
            self.stop.store(true, Ordering::Relaxed);
            resume_unwind(panic);
        }
    }
}

fn set_jumbo_mtu(hosts: &Hosts) {
    for host in [&hosts.server, &hosts.client] {
        let mut ip = Command::new("ip");
        ip.args(["link", "set", "eth0", "mtu", "9000"]);
        assert!(on(host, || ip.status()).unwrap().success());
    }
}

/// Runs the soak. Panics if a check fails.
pub fn run(plan: Plan) -> Report {
    // Builds the command first, if needed.
    let _ = binary();
    let hosts = Hosts::new();
    set_jumbo_mtu(&hosts);
    let folder = Folder::new();
    let began = Instant::now();
    let file = folder.write("limiter.toml", Configuration::first());
    let attach = ["attach", "eth0", "--config", &file];
    hosts.limiter(&attach).expect(0);
    let soak = Soak {
        plan,
        hosts: &hosts,
        folder,
        arrivals: Arrivals::new(&hosts),
        sent: senders::Sent::default(),
        memory: Mutex::default(),
        reloads: AtomicU64::new(0),
        done: Mutex::default(),
        ends: Instant::now() + plan.duration,
        stop: AtomicBool::new(false),
    };
    let mut bounds = Bounds::new(began);
    let exporter = Exporter::start(&hosts.server);
    let received = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| soak.part(|soak| soak.arrivals.receive(&received)));
        let _end = SetOnDrop(&received);
        soak.part(senders::make_known);
        thread::scope(|scope| {
            for cpu in 0..2 {
                let soak = &soak;
                scope.spawn(move || soak.part(|soak| senders::flood(soak, cpu)));
            }
            scope.spawn(|| soak.part(senders::slow));
            scope.spawn(|| soak.part(commands::run));
            scope.spawn(|| soak.part(readers::query));
            scope.spawn(|| soak.part(|soak| readers::scrape(soak, &exporter)));
            scope.spawn(|| soak.part(readers::watch));
            scope.spawn(|| soak.part(readers::top));
            soak.part(|soak| {
                let mut reported = 0;
                while soak.goes_on() {
                    bounds.check(soak);
                    let minutes = began.elapsed().as_secs() / 60;
                    if soak.plan.reports_progress && minutes > reported {
                        reported = minutes;
                        eprintln!("{minutes} min, {} packets sent", soak.sent.all());
                    }
                    senders::expect_no_loss(soak);
                    soak.note_memory("limiter export", exporter.process().as_raw() as u32);
                    soak.note_memory("the soak itself", std::process::id());
                    soak.sleep(Duration::from_secs(1));
                }
            });
        });
        soak.part(|soak| {
            figures::expect_all_seen(soak);
            bounds.check(soak);
            senders::expect_no_loss(soak);
        });
    });
    let report = Report::of(&soak, &bounds, began.elapsed());
    soak.memory.lock().unwrap().expect_flat();
    drop(exporter);
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists(), "detach leaves nothing behind");
    report
}
