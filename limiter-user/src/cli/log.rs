//! `limiter log`.

use crate::{
    cli::{args, output::note},
    kernel::ops::log::Logging,
    show,
};

pub async fn run(arguments: args::Log) -> anyhow::Result<()> {
    let stop = interruption()?;
    let logging = Logging::start(&arguments.interface).await?;
    note(&format!(
        "{}: every packet is logged until you press Ctrl-C; limiting goes on",
        arguments.interface
    ));
    let shadow = logging.shadow;
    let show = |line: &str| show::log::line(line, shadow);
    Ok(logging.print(show, stop).await?)
}

/// Ctrl-C, `kill`, or a terminal that goes away.
pub fn interruption() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    })
}
