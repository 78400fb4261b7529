use std::path::PathBuf;

use clap::Args;
use limiter_config::Rate;
use limiter_kernel::sys::requirements;

use crate::{
    adapt::{
        self,
        simulate::{Second, Simulated},
    },
    cli::shared::{ForPrograms, document, file::read, interface, interruption, note, note_capture},
    plan::capture::Capture,
    sandbox,
    show::{
        table::table,
        units::{counted, grouped},
    },
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
    /// With --simulate: print JSON, for programs
    #[arg(long, requires = "simulate")]
    json: bool,
}

pub async fn run(arguments: Adapt) -> anyhow::Result<()> {
    let json = arguments.json;
    ForPrograms { json }.answer();
    let (capture, config) = (arguments.simulate, arguments.config);
    if let (Some(capture), Some(config), Some(capacity)) = (capture, config, arguments.capacity) {
        let settings = read(&config)?.settings;
        let mut capture = Capture::open(&capture)?;
        let simulated = adapt::simulate::run(&mut capture, &settings, capacity)?;
        note_capture(&capture)?;
        note_left_out(&simulated);
        return document(json, &simulated, || shown(&simulated.seconds));
    }
    requirements::privileges()?;
    let interface = arguments.interface.unwrap_or_default();
    let stop = interruption()?;
    sandbox::confine(sandbox::TO_READ)?;
    adapt::run(&interface, note, stop).await
}

/// Prints notes about packets and seconds that are not in the table.
fn note_left_out(simulated: &Simulated) {
    let other = simulated.other_direction;
    if other > 0 {
        note(&format!(
            "left out {} of the other direction",
            counted(other, "packet")
        ));
    }
    let seconds = &simulated.seconds;
    let all = seconds.last().map_or(0, |last| last.number + 1);
    let hidden = all - seconds.len() as u64;
    if hidden > 0 {
        note(&format!(
            "{} without packets, in long gaps, are not shown",
            counted(hidden, "second")
        ));
    }
}

fn shown(seconds: &[Second]) -> String {
    let rows = seconds.iter().map(|second| {
        let scales = second.scales.iter();
        let scales: Vec<_> = scales
            .map(|scale| format!("{} {:.0}%", scale.limit, scale.part * 100.0))
            .collect();
        [
            grouped(second.number),
            grouped(second.offered),
            grouped(second.configured),
            grouped(second.adapted),
            scales.join(", "),
        ]
    });
    let columns = "SECOND|ARRIVED|PASSED AS CONFIGURED|PASSED ADAPTED|RATES";
    table(columns, 0, rows) + "\n"
}
