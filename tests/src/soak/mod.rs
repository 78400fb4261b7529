//! Runs all functions at once, for any time, with constant checks.
//!
//! Two processors send packets of made-up, heavy and slow sources, and odd frames. Meanwhile, commands change the
//! attachment, and readers read it. The first failed check ends the soak with a panic.

mod bans;
mod changes;
mod checks;
mod readers;
mod wire;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    SetOnDrop,
    command::{Outcome, binary, ip},
    exporter::Exporter,
    files::Folder,
    hosts::Hosts,
    number,
};
use checks::{Bounds, Memory};
use wire::Wire;

/// Duration and load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Duration of traffic and commands.
    pub duration: Duration,
    /// Packets per second from each of two processors, approximately.
    pub packets_per_second: u32,
    /// Pause between two commands.
    pub pause: Duration,
}

/// Result of a soak.
#[derive(Debug)]
pub struct Report {
    /// Number of times that each action was done.
    pub done: BTreeMap<String, u64>,
    /// The report as Markdown.
    pub page: String,
}

/// State shared by all parts.
#[derive(Debug)]
struct Soak<'h> {
    plan: Plan,
    hosts: &'h Hosts,
    folder: Folder,
    exporter: Exporter<'h>,
    wire: Wire,
    memory: Mutex<Memory>,
    done: Mutex<BTreeMap<String, u64>>,
    began: Instant,
    stop: AtomicBool,
}

/// Parts that run until the soak ends, each in a thread of its own.
const PARTS: [fn(&Soak<'_>); 10] = [
    |soak| wire::flood(soak, 0),
    |soak| wire::flood(soak, 1),
    wire::slow,
    changes::run,
    bans::by_hand,
    bans::by_feed,
    readers::query,
    readers::scrape,
    readers::watch,
    readers::view,
];

impl Soak<'_> {
    /// True if the soak continues.
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.began.elapsed() < self.plan.duration
    }

    /// Counts an action.
    fn count(&self, operation: &str) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done.entry(operation.to_owned()).or_default() += 1;
    }

    fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while self.goes_on() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20).min(time));
        }
    }

    /// Runs `limiter` on the server. Repeats the command while other tests hold the machine's lock for too long.
    fn ask(&self, line: &str) -> Outcome {
        const LOCKED: &str = "another limiter command has held the lock";
        self.count(line.split(' ').next().unwrap_or_default());
        loop {
            let outcome = self.hosts.limiter(line);
            if outcome.status != 1 || !outcome.stderr.contains(LOCKED) || !self.goes_on() {
                return outcome;
            }
        }
    }

    /// Runs a command that must succeed.
    fn limiter(&self, line: &str) -> String {
        let outcome = self.ask(line);
        outcome.expect(0);
        outcome.stdout
    }

    /// Runs `part`. If it fails, all other parts end too.
    fn part(&self, part: impl FnOnce(&Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part(self))) {
            self.stop.store(true, Ordering::Relaxed);
            resume_unwind(panic);
        }
    }

    /// Checks everything once a second until the soak ends.
    fn check(&self, bounds: &mut Bounds<'_>) {
        let mut reported = 0;
        while self.goes_on() {
            bounds.check(self);
            self.wire.expect_no_loss(self.hosts);
            let mut memory = self.memory.lock().unwrap();
            memory.note("limiter export", self.exporter.process());
            memory.note("the soak itself", nix::unistd::getpid());
            drop(memory);
            let minutes = self.began.elapsed().as_secs() / 60;
            if minutes > reported {
                reported = minutes;
                eprintln!("{minutes} min, {} packets sent", self.wire.sent());
            }
            self.sleep(Duration::from_secs(1));
        }
    }

    fn report(&self, bounds: &Bounds<'_>) -> Report {
        let mut page = format!(
            "# Soak\n\nResult of `cargo xtask soak`: {} of all functions at once, ended {}.\n\
             The first failed check ends a run. This run completed.\n\n| figure | |\n| --- | --- |\n",
            humantime::format_duration(Duration::from_secs(self.began.elapsed().as_secs())),
            humantime::format_rfc3339_seconds(SystemTime::now()),
        );
        let _ = writeln!(page, "| packets sent | {} |", self.wire.sent());
        let status = self.hosts.status();
        for name in ["seen", "passed", "dropped"] {
            let packets = number(&status[name]["packets"]);
            let _ = writeln!(page, "| packets {name} | {packets} |");
        }
        for (source, share) in bounds.used() {
            let _ = writeln!(
                page,
                "| share of burst + rate × t that {source} got | {:.4} % |",
                100.0 * share
            );
        }
        page += "\n| action | count |\n| --- | --- |\n";
        let done = self.done.lock().unwrap().clone();
        for (operation, times) in &done {
            let _ = writeln!(page, "| {operation} | {times} |");
        }
        Report { done, page }
    }
}

/// Runs the soak. Panics if a check fails.
pub fn run(plan: Plan) -> Report {
    // Builds the command first, if needed.
    let _ = binary();
    let hosts = Hosts::new();
    for host in [&hosts.server, &hosts.client] {
        ip(&host.namespace, "link set eth0 mtu 9000");
    }
    let began = Instant::now();
    hosts.attach_file(&changes::first());
    let soak = Soak {
        plan,
        hosts: &hosts,
        folder: Folder::new(),
        exporter: Exporter::start(&hosts.server),
        wire: Wire::new(&hosts),
        memory: Mutex::default(),
        done: Mutex::default(),
        began,
        stop: AtomicBool::new(false),
    };
    let mut bounds = Bounds::new(&soak);
    let received = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| soak.part(|soak| soak.wire.receive(&received)));
        let _end = SetOnDrop(&received);
        // Makes the slow sources known to the table.
        (0..3).for_each(|_| soak.wire.round(&hosts));
        thread::scope(|scope| {
            for part in PARTS {
                let soak = &soak;
                scope.spawn(move || soak.part(part));
            }
            soak.part(|soak| soak.check(&mut bounds));
        });
        soak.part(|soak| {
            checks::expect_all_seen(soak);
            bounds.check(soak);
            soak.wire.expect_no_loss(&hosts);
        });
    });
    let report = soak.report(&bounds);
    soak.memory.lock().unwrap().expect_flat();
    drop(bounds);
    drop(soak);
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists(), "detach leaves nothing behind");
    report
}
