//! Measures the cost of a packet on a wire: two hosts in network namespaces, a sender in the kernel of one, and each
//! subject in turn on the other.
//!
//! One processor sends and receives in batches, one after the other, so that no packet is lost. A figure is processor
//! time per packet, including its sending. The price of a subject is its figure minus the figure of a program that only
//! drops, or only passes.
//!
//! A new subject is a line of [`subject::SUBJECTS`].

mod case;
mod limiter;
mod machine;
mod mix;
mod netfilter;
mod object;
mod offer;
mod plan;
mod series;
mod subject;
mod table;
mod testbed;

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use limiter_kernel::sys::requirements;
use plan::Plan;
use series::Results;

/// Measure the cost of limiting per packet.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    #[command(flatten)]
    plan: Plan,
    /// Also write results.txt and results.json to FOLDER
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// The report, as JSON.
#[derive(Debug, Serialize)]
struct Report {
    machine: BTreeMap<String, String>,
    what: String,
    #[serde(flatten)]
    plan: Plan,
    #[serde(flatten)]
    results: Results,
}

fn main() -> Result<()> {
    let Args { plan, out } = Args::parse();
    requirements::privileges()?;
    let (_, most_files) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most_files, most_files)?;
    let cpus = machine::cpus().context("asking for processors")?;
    let mut report = Report {
        machine: machine::describe(),
        what: table::WHAT.trim().replace('\n', " "),
        plan: plan.checked(),
        results: Results::default(),
    };
    for case in report.plan.cases(cpus.len()) {
        eprintln!("bench: {}, sources: {}", case.title(), case.sources);
        report.results.measure(case, &report.plan, &cpus)?;
    }
    let facts = report.machine.iter();
    let facts = facts.map(|(name, value)| format!("{name}: {value}\n"));
    let tables = table::tables(&report.plan, &report.results);
    let text = format!("{}\n{tables}", facts.collect::<String>());
    print!("{text}");
    if let Some(folder) = out {
        let json = serde_json::to_string_pretty(&report)? + "\n";
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        for (name, text) in [("results.txt", text), ("results.json", json)] {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}
