use std::path::PathBuf;

use clap::Args;
use limiter_config::Rate;
use limiter_kernel::sys::requirements;

use crate::{
    adapt::{self, simulate::Second},
    cli::shared::{file::read, interface, interruption, note, print},
    plan::capture::Capture,
    sandbox,
    show::{table::table, units::grouped},
};

/// Lower the rates of adaptive limits while the host is overloaded
///
/// It runs until interrupted. Afterwards, and if it dies, the configured rates are in force again within six seconds.
#[derive(Debug, Args)]
pub struct Adapt {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface, required_unless_present = "simulate", conflicts_with = "simulate")]
    interface: Option<String>,
    /// Change nothing. Show for each second of this pcap or pcapng file what would pass
    #[arg(long, value_name = "CAPTURE", requires_all = ["config", "capacity"])]
    simulate: Option<PathBuf>,
    /// Configuration file to simulate
    #[arg(long, value_name = "FILE", requires = "simulate")]
    config: Option<PathBuf>,
    /// Packets that the simulated host can serve. In seconds in which more pass, all signals are over
    #[arg(long, value_name = "RATE", requires = "simulate")]
    capacity: Option<Rate>,
}

pub async fn run(arguments: Adapt) -> anyhow::Result<()> {
    let (capture, config) = (arguments.simulate, arguments.config);
    if let (Some(capture), Some(config), Some(capacity)) = (capture, config, arguments.capacity) {
        let settings = read(&config)?.settings;
        let seconds = adapt::simulate::run(&mut Capture::open(&capture)?, &settings, capacity)?;
        return Ok(print(&simulated(&seconds))?);
    }
    requirements::privileges()?;
    let interface = arguments.interface.unwrap_or_default();
    let stop = interruption()?;
    sandbox::confine(sandbox::TO_READ)?;
    adapt::run(&interface, note, stop).await
}

fn simulated(seconds: &[Second]) -> String {
    let rows = seconds.iter().zip(0_u64..).map(|(second, number)| {
        let scales = second.scales.iter();
        let scales: Vec<_> = scales
            .map(|(name, scale)| format!("{name} {:.0}%", scale * 100.0))
            .collect();
        [
            grouped(number),
            grouped(second.offered),
            grouped(second.configured),
            grouped(second.adapted),
            scales.join(", "),
        ]
    });
    let columns = "SECOND|ARRIVED|PASSED AS CONFIGURED|PASSED ADAPTED|RATES";
    table(columns, 0, rows) + "\n"
}
