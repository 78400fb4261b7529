//! `limiter log`.

use clap::Args;

use crate::{
    cli::shared::{interruption::interruption, output::note, values::interface},
    kernel::ops::log::Logging,
    show,
};

/// Print the verdict on each packet: slow, for debugging
///
/// It runs until interrupted.
#[derive(Debug, Args)]
pub struct Log {
    /// The interface
    #[arg(value_name = "IFACE", value_parser = interface)]
    interface: String,
}

pub async fn run(arguments: Log) -> anyhow::Result<()> {
    let stop = interruption()?;
    let logging = Logging::start(&arguments.interface).await?;
    note(&format!(
        "{}: every packet is logged until you press Ctrl-C; limiting continues",
        arguments.interface
    ));
    let shadow = logging.shadow;
    let show = |line: &str| show::log::line(line, shadow);
    Ok(logging.print(show, stop).await?)
}
