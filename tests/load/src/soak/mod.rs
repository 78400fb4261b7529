//! Runs all functions at once, for any time, with constant checks.
//!
//! Two processors send packets of made-up, heavy and slow sources, and odd frames. Meanwhile, commands change the
//! attachment, and readers read it. The first failed check ends the soak with a panic.

mod bans;
mod changes;
mod checks;
mod flood;
mod memory;
mod readers;
mod state;
mod wire;

use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use checks::Bounds;
use clap::Args;
use limiter_tests::{
    SetOnDrop,
    command::{binary, ip},
    exporter::Exporter,
    files::Folder,
    hosts::Hosts,
    number,
};
use state::{Plan, Soak};
use wire::Wire;

/// Run everything at once for a long time; the first failed check ends the run. Prints the report as Markdown
#[derive(Debug, Args)]
pub struct Options {
    /// Minutes to run
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Packets a second from each of two processors
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    packets: u32,
    /// Only check that the soak works, in 20 seconds
    #[arg(long, conflicts_with_all = ["minutes", "packets"])]
    quick: bool,
}

impl Options {
    fn plan(&self) -> Plan {
        if self.quick {
            return Plan {
                duration: Duration::from_secs(20),
                packets_per_second: 10_000,
                pause: Duration::from_millis(10),
            };
        }
        Plan {
            duration: Duration::from_secs(60 * self.minutes),
            packets_per_second: self.packets,
            pause: Duration::from_millis(100),
        }
    }
}

/// Runs the soak, and prints its report.
pub fn main(options: &Options) {
    print!("{}", run(options.plan()));
}

/// Parts that run until the soak ends, each in a thread of its own.
const PARTS: [fn(&Soak<'_>); 10] = [
    |soak| flood::flood(soak, 0),
    |soak| flood::flood(soak, 1),
    flood::slow,
    changes::run,
    bans::by_hand,
    bans::by_feed,
    readers::query,
    readers::scrape,
    readers::watch,
    readers::view,
];

/// Runs `part`. If it fails, all other parts end too.
fn run_part(soak: &Soak<'_>, part: impl FnOnce(&Soak<'_>)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part(soak))) {
        soak.stop.store(true, Ordering::Relaxed);
        resume_unwind(panic);
    }
}

/// Checks everything once a second until the soak ends.
fn check(soak: &Soak<'_>, bounds: &mut Bounds<'_>) {
    let mut reported = 0;
    while soak.goes_on() {
        bounds.check(soak);
        soak.wire.expect_no_loss(soak.hosts);
        let mut memory = soak.memory.lock().unwrap();
        memory.note("limiter export", soak.exporter.process());
        memory.note("the soak itself", nix::unistd::getpid());
        drop(memory);
        let minutes = soak.began.elapsed().as_secs() / 60;
        if minutes > reported {
            reported = minutes;
            eprintln!("{minutes} min, {} packets sent", soak.wire.sent());
        }
        soak.sleep(Duration::from_secs(1));
    }
}

fn report(soak: &Soak<'_>, bounds: &Bounds<'_>) -> String {
    let mut page = format!(
        "# Soak\n\nResult of `cargo xtask soak`: {} of all functions at once, ended {}.\n\
         The first failed check ends a run. This run completed.\n\n| figure | |\n| --- | --- |\n",
        humantime::format_duration(Duration::from_secs(soak.began.elapsed().as_secs())),
        humantime::format_rfc3339_seconds(SystemTime::now()),
    );
    let _ = writeln!(page, "| packets sent | {} |", soak.wire.sent());
    let status = soak.hosts.status();
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
    let done = soak.done.lock().unwrap().clone();
    for (operation, times) in &done {
        let _ = writeln!(page, "| {operation} | {times} |");
    }
    page
}

/// Runs the soak, and returns its report as Markdown. Panics if a check fails.
fn run(plan: Plan) -> String {
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
        scope.spawn(|| run_part(&soak, |soak| soak.wire.receive(&received)));
        let _end = SetOnDrop(&received);
        // Makes the slow sources known to the table.
        (0..3).for_each(|_| soak.wire.round(&hosts));
        thread::scope(|scope| {
            for part in PARTS {
                let soak = &soak;
                scope.spawn(move || run_part(soak, part));
            }
            run_part(&soak, |soak| check(soak, &mut bounds));
        });
        run_part(&soak, |soak| {
            checks::expect_all_seen(soak);
            bounds.check(soak);
            soak.wire.expect_no_loss(&hosts);
        });
    });
    let report = report(&soak, &bounds);
    soak.memory.lock().unwrap().expect_flat();
    drop(bounds);
    drop(soak);
    hosts.run("detach eth0");
    assert!(!hosts.pins().exists(), "detach leaves nothing behind");
    report
}
