//! Measures the cost of limiting per packet: on a wire, compared with other limiters, and step by step.

mod grid;
mod machine;
mod object;
mod sample;
mod steps;
mod topology;
mod wire;

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use limiter_user::kernel::sys::requirements;
use serde::Serialize;

use machine::Machine;
use steps::{Effort, Steps};
use wire::{Plan, Sources, Subject, Wire};

/// Measure the cost of limiting per packet.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    /// Turns of each subject
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Packets of one turn on the wire
    #[arg(long, value_name = "N", default_value = "200000", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    packets: u32,
    /// Packets of one turn of a step
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(10..))]
    repeat: u32,
    /// Numbers of sources: powers of two, or `new` for a new source in every packet
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,1024,65536,1048576,new"
    )]
    sources: Vec<Sources>,
    /// Only these subjects, and the bare programs that they are compared with
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    subject: Vec<Subject>,
    /// Run only this part
    #[arg(long)]
    only: Option<Part>,
    /// Also write all results to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write results.txt and results.json to FOLDER
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Only check that the benchmark works, within seconds; the figures mean nothing
    #[arg(long, conflicts_with_all = ["rounds", "packets", "repeat", "sources"])]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// limiter and other limiters on a wire
    Wire,
    /// The program alone, and the cost of each of its steps
    Steps,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<Wire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Steps>,
}

impl Args {
    fn plan(&self) -> Plan {
        let floors = [Subject::BareDrop, Subject::BarePass];
        let wanted = |subject: &Subject| {
            self.subject.is_empty() || self.subject.contains(subject) || floors.contains(subject)
        };
        let all = Subject::value_variants().iter().copied();
        let subjects = all.filter(wanted).collect();
        if self.quick {
            return Plan::quick(subjects);
        }
        Plan::new(self.rounds, self.packets, subjects, self.sources.clone())
    }

    /// Effort and numbers of sources of the steps. Leaves out new sources, and 1,024, which costs the same as one.
    fn effort(&self) -> (Effort, Vec<u32>) {
        if self.quick {
            return (Effort::QUICK, vec![1, 1_024]);
        }
        let numbers = self.sources.iter().filter_map(|sources| match sources {
            Sources::Number(1_024) | Sources::New => None,
            Sources::Number(number) => Some(*number),
        });
        (Effort::new(self.rounds, self.repeat), numbers.collect())
    }

    fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

impl Report {
    fn measure(args: &Args) -> Result<Self> {
        let cpus = machine::cpus().context("asking for processors")?;
        let machine = Machine::this(&cpus);
        let wire = args
            .wants(Part::Wire)
            .then(|| Wire::measure(args.plan(), &cpus));
        let wire = wire.transpose()?;
        machine::stay_on(cpus[0]).context("staying on one processor")?;
        let (effort, sources) = args.effort();
        let steps = args
            .wants(Part::Steps)
            .then(|| Steps::measure(effort, &sources));
        Ok(Self {
            machine,
            wire,
            steps: steps.transpose()?,
        })
    }

    fn text(&self) -> Result<String> {
        let mut text = self.machine.lines().into_bytes();
        if let Some(wire) = &self.wire {
            writeln!(text)?;
            wire.print(&mut text)?;
        }
        if let Some(steps) = &self.steps {
            writeln!(text)?;
            steps.print(&mut text)?;
        }
        Ok(String::from_utf8(text)?)
    }

    fn write_json(&self, path: &Path) -> Result<()> {
        write(path, &(serde_json::to_string_pretty(self)? + "\n"))
    }

    fn write_all(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        write(&folder.join("results.txt"), &self.text()?)?;
        self.write_json(&folder.join("results.json"))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn main() -> Result<()> {
    let args = Args::parse();
    requirements::privileges()?;
    let report = Report::measure(&args)?;
    io::stdout().lock().write_all(report.text()?.as_bytes())?;
    if let Some(path) = &args.json {
        report.write_json(path)?;
    }
    match &args.out {
        Some(folder) => report.write_all(folder),
        None => Ok(()),
    }
}
