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
mod kernel;
mod looks;
mod memory;
mod report;
mod scrapes;
mod senders;
mod watchers;
mod wire;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
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
    hosts::Hosts,
};
use arrivals::Arrivals;
use bound::Bounds;
use configurations::CONFIGURATIONS;
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
    /// Begun resets, and ended resets.
    resets: (AtomicU64, AtomicU64),
    done: Mutex<BTreeMap<&'static str, u64>>,
    /// Packets that the wire dropped before any program.
    lost: AtomicU64,
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
            self.count("repeat, because others held the lock");
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
        let mut memory = self.memory.lock().unwrap();
        memory.note_memory(name, process);
    }

    /// Runs `part`. If it fails, all other parts end too.
    fn part(&self, part: impl FnOnce(&Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part(self))) {
            self.stop.store(true, Ordering::Relaxed);
            resume_unwind(panic);
        }
    }
}

/// Runs the soak. Panics if a check fails.
pub fn run(plan: Plan) -> Report {
    // Builds the command first, if needed.
    let _ = binary();
    let hosts = Hosts::new();
    wire::set_jumbo_mtu(&hosts);
    let folder = Folder::new();
    let began = Instant::now();
    let file = folder.write("limiter.toml", CONFIGURATIONS[0].text(false));
    let attach = ["attach", "eth0", "--config", &file];
    hosts.limiter(&attach).expect(0);
    let complaints = kernel::complaints();
    let soak = Soak {
        plan,
        hosts: &hosts,
        folder,
        arrivals: Arrivals::new(&hosts),
        sent: senders::Sent::default(),
        memory: Mutex::default(),
        reloads: AtomicU64::new(0),
        resets: <(AtomicU64, AtomicU64)>::default(),
        done: Mutex::default(),
        lost: AtomicU64::new(0),
        ends: Instant::now() + plan.duration,
        stop: AtomicBool::new(false),
    };
    let (mut bounds, mut slow) = (Bounds::new(began), 0);
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
            scope.spawn(|| soak.part(looks::run));
            scope.spawn(|| soak.part(|soak| scrapes::run(soak, &exporter)));
            scope.spawn(|| soak.part(watchers::watch));
            scope.spawn(|| soak.part(watchers::top));
            soak.part(|soak| {
                let mut reported = 0;
                while soak.goes_on() {
                    bounds.check(soak);
                    let minutes = began.elapsed().as_secs() / 60;
                    if soak.plan.reports_progress && minutes > reported {
                        reported = minutes;
                        eprintln!("{minutes} min, {} packets sent", soak.sent.all());
                    }
                    slow = senders::expect_no_loss(soak);
                    soak.note_memory("limiter export", exporter.process().as_raw() as u32);
                    soak.note_memory("the soak itself", std::process::id());
                    soak.sleep(Duration::from_secs(1));
                }
            });
        });
        soak.part(|soak| {
            figures::expect_all_seen(soak);
            bounds.check(soak);
            slow = senders::expect_no_loss(soak);
        });
    });
    let report = Report::of(&soak, &bounds, slow, began.elapsed());
    soak.memory.lock().unwrap().expect_flat();
    kernel::expect_no_more(&complaints);
    drop(exporter);
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists(), "detach leaves nothing behind");
    report
}
