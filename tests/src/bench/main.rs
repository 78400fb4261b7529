//! How long the program takes for a packet, and which of its steps takes how long.

mod case;
mod driver;
mod json;
mod machine;
mod object;
mod objects;
mod report;
mod sample;
mod series;
mod steps;
mod subject;

use std::{io, path::PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use limiter_user::kernel::requirements;

use case::{Case, Verdict};
use machine::Machine;
use series::Effort;

/// Measure nanoseconds a packet by the kernel's test-run, and each step's share.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    /// How often each program has its turn
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Packets of one turn
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(10..))]
    repeat: u32,
    /// Numbers of sources, powers of two. The tables of a million take half a gigabyte
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,65536,1048576", value_parser = sources)]
    sources: Vec<u32>,
    /// Write everything to FILE as JSON too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only see that it works, within seconds: the figures are worth nothing
    #[arg(long, conflicts_with_all = ["rounds", "repeat", "sources"])]
    quick: bool,
}

fn sources(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number) if number.is_power_of_two() && number <= 1 << 24 => Ok(number),
        _ => Err("write a power of two, up to 16777216".into()),
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let frags = requirements::kernel()?.has_frags();
    requirements::privileges()?;
    machine::stay_on_one_cpu().context("staying on one processor")?;

    let (effort, sources) = if args.quick {
        (Effort::QUICK, vec![1, 1_024])
    } else {
        (Effort::new(args.rounds, args.repeat), args.sources)
    };
    let cases: Vec<Case> = sources
        .into_iter()
        .flat_map(|sources| Verdict::ALL.map(|verdict| Case { sources, verdict }))
        .collect();
    let mut measured = Vec::new();
    for case in &cases {
        measured.extend(series::measure(*case, effort, frags)?);
    }
    let machine = Machine::this();
    report::print(
        &mut io::stdout().lock(),
        &machine,
        effort,
        &cases,
        &measured,
    )?;
    match args.json {
        Some(path) => json::write(&path, &machine, effort, &measured),
        None => Ok(()),
    }
}
