//! `cargo xtask overload`: an overloaded web server behind a fixed limit, and behind an adaptive one.
//!
//! nginx has one process, and compresses each answer. Ordinary clients send a request now and then; a few greedy ones send
//! as many as they get answers to. The limit of connections for each source is generous.

mod clients;
mod picture;

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use limiter_tests::{
    command::{ip, prepared},
    hosts::{Hosts, SERVER, on},
    service::{Protocol, Service},
    testbed::Address,
};
use limiter_user::show::table::table;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// Measure how an overloaded web server fares behind a fixed limit and an adaptive one
#[derive(Debug, Args)]
pub struct Options {
    /// Runs of each kind, alternating
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Write the course of the first runs as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Seconds before the overload, of the overload, and after it.
const PHASES: [u64; 3] = [20, 40, 30];
/// Seconds of each phase that are not measured: the adaptive limit takes that long to settle.
const SETTLING: u64 = 10;

/// One second of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    /// The part of the rate in force.
    scale: f64,
    /// The slowest answer to an ordinary client that came in this second.
    slowest: f64,
}

/// A run: the 99th percentile of ordinary clients' times in each phase, in seconds, and its course.
struct Run {
    kind: &'static str,
    percentiles: [f64; 3],
    course: Vec<Second>,
}

/// Measures, and prints the table.
pub fn main(options: &Options) -> Result<()> {
    // Pins go with this process.
    unshare(CloneFlags::CLONE_NEWNS).context("this needs root")?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(
        Some("bpf"),
        "/sys/fs/bpf",
        Some("bpf"),
        MsFlags::empty(),
        none,
    )?;
    let mut runs = Vec::new();
    for number in 0..2 * options.runs {
        let is_adaptive = number % 2 == 1;
        eprintln!("overload: run {} of {}", number + 1, 2 * options.runs);
        runs.push(run(is_adaptive)?);
    }
    let rows = runs.iter().map(|run| {
        let [before, during, after] = run.percentiles.map(|time| format!("{:.0} ms", time * 1e3));
        [run.kind.to_owned(), before, during, after]
    });
    println!(
        "99th percentile of ordinary clients' times; {SETTLING} s of each phase are not measured"
    );
    println!("{}", table("LIMIT|BEFORE|OVERLOAD|AFTER", 1, rows));
    if let Some(path) = &options.svg {
        fs::write(path, picture::svg(&runs[0].course, &runs[1].course))?;
    }
    Ok(())
}

/// Detached and ended when dropped.
struct Adapting(Child);

impl Drop for Adapting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(is_adaptive: bool) -> Result<Run> {
    let addresses: Vec<_> = clients::addresses()
        .map(|address| Address(address, 24))
        .collect();
    let hosts = Hosts::with(&[Address(SERVER, 24)], &addresses);
    // The probe asks the server's own address.
    ip(&hosts.server.namespace, "link set lo up");
    let folder = tempfile::tempdir()?;
    let _server = serve(&hosts, folder.path().to_str().context("no path")?)?;
    let adaptive =
        "adaptive = { floor = \"5%\", when = { probe = \"http://192.0.2.1/health > 50ms\" } }\n";
    hosts.attach_file(&format!(
        "interfaces = [\"eth0\"]\n[[limit]]\nname = \"web\"\nmatch = {{ protocol = \"tcp\", tcp_flags = \"syn\", destination_port = 80 }}\n\
         rate = \"100/s\"\n{}",
        if is_adaptive { adaptive } else { "" }
    ));
    let spawn = || prepared("adapt eth0").stderr(Stdio::null()).spawn();
    let _adapting = match is_adaptive {
        true => Some(Adapting(on(&hosts.server, spawn)?)),
        false => None,
    };
    let began = Instant::now();
    let traffic = {
        let all: u64 = PHASES.iter().sum();
        let greedy = PHASES[0]..PHASES[0] + PHASES[1];
        let work = move || clients::send(SERVER, all, greedy);
        let client = &hosts.client;
        thread::scope(|scope| -> Result<_> {
            let sent = scope.spawn(|| on(client, work));
            let mut scales = Vec::new();
            for second in 0..all {
                let moment = began + Duration::from_secs(second);
                thread::sleep(moment.saturating_duration_since(Instant::now()));
                scales.push(hosts.status()["limits"][0]["scale"].as_f64().unwrap_or(1.0));
            }
            let times = sent.join().expect("the clients end")?;
            Ok((times, scales))
        })?
    };
    let (times, scales) = traffic;
    let mut begins = 0;
    let mut percentiles = [0.0; 3];
    for (phase, percentile) in PHASES.iter().zip(&mut percentiles) {
        let measured = (begins + SETTLING.min(phase - 5)) as f64..(begins + phase) as f64;
        let mut of_phase: Vec<_> = times
            .iter()
            .filter(|(begin, _)| measured.contains(begin))
            .map(|(_, time)| *time)
            .collect();
        ensure!(of_phase.len() > 100, "only {} answers", of_phase.len());
        of_phase.sort_by(f64::total_cmp);
        *percentile = of_phase[of_phase.len() * 99 / 100];
        begins += phase;
    }
    let course = scales.into_iter().zip(0_u32..).map(|(scale, second)| {
        let here = f64::from(second)..f64::from(second + 1);
        let answered = times.iter().filter(|(begin, _)| here.contains(begin));
        let slowest = answered.map(|(_, time)| *time).fold(0.0, f64::max);
        Second { scale, slowest }
    });
    Ok(Run {
        kind: if is_adaptive { "adaptive" } else { "fixed" },
        percentiles,
        course: course.collect(),
    })
}

/// One process of nginx, whose answers cost time.
fn serve(hosts: &Hosts, path: &str) -> Result<Service> {
    let mut rng = fastrand::Rng::with_seed(1);
    let words: String = (0..20_000).map(|_| format!("{} ", rng.u16(..))).collect();
    fs::write(format!("{path}/index.html"), words)?;
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {path}/{kind};"));
    fs::write(
        format!("{path}/nginx.conf"),
        format!(
            "user root; worker_processes 1; daemon off; pid {path}/pid; error_log /dev/null; events {{}}
            http {{ access_log off; gzip on; gzip_comp_level 9; {} server {{
                listen 80 backlog=4096; root {path}; keepalive_timeout 0;
                location = /health {{ return 200; }} }} }}",
            paths.concat()
        ),
    )?;
    let file = format!("{path}/nginx.conf");
    let line = ["nginx", "-c", &file, "-e", "/dev/null"];
    Ok(Service::start(&hosts.server, &line, Protocol::Tcp, 80))
}
