//! `cargo xtask soak`: runs the soak for a given time, and prints its report.

use std::time::Duration;

use clap::Parser;
use limiter_tests::soak::{self, Plan};

/// Run everything at once for a long time; the first failed check ends the run. Prints the report as Markdown
#[derive(Debug, Parser)]
#[command(name = "soak")]
struct Args {
    /// Minutes to run
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Packets a second from each of two processors
    #[arg(long, value_name = "N", default_value = "20000", value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    packets: u32,
}

fn main() {
    let Args { minutes, packets } = Args::parse();
    let report = soak::run(Plan {
        duration: Duration::from_secs(60 * minutes),
        packets_per_second: packets,
        pause: Duration::from_millis(100),
    });
    print!("{}", report.page);
}
