//! Measures the cost of a packet on a wire: two hosts in network namespaces, a sender in the kernel of one, and each
//! subject in turn on the other.
//!
//! One processor sends and receives in batches, one after the other, so that no packet is lost. A figure is processor
//! time per packet, including its sending. The price of a subject is its figure minus the figure of a program that only
//! drops, or only passes.
//!
//! A new subject is a value of [`subject::Subject`], and a line of its `install`.

mod case;
mod limiter;
mod machine;
mod netfilter;
mod object;
mod offer;
mod plan;
mod series;
mod subject;
mod table;
mod testbed;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Parser;
use limiter_user::kernel::sys::requirements;
use serde::Serialize;

use machine::Machine;
use plan::Plan;
use series::{LeftOut, Measured};

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

/// All results.
#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    what: String,
    #[serde(flatten)]
    plan: Plan,
    results: Vec<Measured>,
    left_out: Vec<LeftOut>,
}

impl Report {
    fn measure(plan: Plan) -> Result<Self> {
        let cpus = machine::cpus().context("asking for processors")?;
        let machine = machine::describe(&cpus);
        let (mut results, mut left_out) = (Vec::new(), Vec::new());
        for case in plan.cases(cpus.len()) {
            eprintln!("bench: {case}");
            let series = series::measure(case, &plan, &cpus)?;
            results.extend(series.measured);
            left_out.extend(series.left_out);
        }
        Ok(Self {
            machine,
            what: table::WHAT.trim().replace('\n', " "),
            plan,
            results,
            left_out,
        })
    }

    fn text(&self) -> String {
        let tables = table::tables(&self.plan, &self.results);
        let left_out = table::left_out(&self.left_out);
        let facts = self.machine.iter();
        let facts: String = facts
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect();
        format!("{facts}\n{tables}{left_out}")
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)? + "\n";
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        for (name, text) in [("results.txt", self.text()), ("results.json", json)] {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    requirements::privileges()?;
    let report = Report::measure(args.plan.checked())?;
    print!("{}", report.text());
    args.out.map_or(Ok(()), |folder| report.write(&folder))
}
