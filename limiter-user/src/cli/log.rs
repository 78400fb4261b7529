//! `limiter log`.

use crate::cli::{args, output::note};
use crate::kernel::log::Logging;

pub async fn run(arguments: args::Log) -> anyhow::Result<()> {
    let logging = Logging::start(&arguments.interface).await?;
    note(&format!(
        "{}: every packet is logged until you press Ctrl-C; limiting goes on",
        arguments.interface
    ));
    let result = logging.print(tokio::signal::ctrl_c()).await;
    Ok(result?)
}
