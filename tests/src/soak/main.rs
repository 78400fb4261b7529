//! `cargo xtask soak`: runs the soak for a given time, and random forms of packets for each of its minutes.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use limiter_tests::{
    forms, random,
    soak::{self, Plan},
};

/// Run everything at once for a long time; the first failed check ends the run
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Args {
    /// Minutes to run
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Packets a second from each of two processors
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    packets: u32,
    /// Write the report to FILE, as Markdown
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Rounds of forms per minute: one for each configuration.
const FORMS: usize = 12;

fn main() -> Result<()> {
    let args = Args::parse();
    let report = soak::run(Plan {
        duration: Duration::from_secs(60 * args.minutes),
        packets_per_second: args.packets,
        pause: Duration::from_millis(100),
        reports_progress: true,
    });
    print!("{}", report.page());
    let seed = random::seed(fastrand::u64(..));
    eprintln!("forms of packets, LIMITER_SEED={seed:#x}");
    let forms = forms::run(seed, FORMS * usize::try_from(args.minutes)?);
    ensure!(
        forms.wrong.is_empty(),
        "LIMITER_SEED={seed:#x}: {:#?}",
        forms.wrong
    );
    if let Some(path) = args.out {
        fs::write(&path, report.page())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
