//! `limiter history`.

use std::time::Duration;

use clap::Args;
use limiter_kernel::Attachment;

use crate::{
    chronicle,
    cli::shared::{DAY, ForPrograms, On, SECOND, document, duration, each, note},
    show,
    show::units::counted,
};

/// Show who changed an attachment, when, and from which values
///
/// Changes of commands, trials, bans by hand, and, while `export` or `notify` runs, floods. The journal has them too:
/// `journalctl -t limiter`.
#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    on: On,
    /// Show the events of this time, as in 2h or 30days
    #[arg(long, value_name = "DURATION", default_value = "7days", value_parser = duration(SECOND..=366 * DAY, "7days"))]
    last: Duration,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: History) -> anyhow::Result<()> {
    arguments.programs.answer();
    let asked = humantime::format_duration(arguments.last).to_string();
    let show = async |interface: &str| {
        let attachment = Attachment::open(interface).await;
        let on_trial = attachment.is_ok_and(|attachment| attachment.try_until().is_some());
        let history = chronicle::read(interface, arguments.last, on_trial)?;
        if history.unreadable > 0 {
            let lines = counted(history.unreadable as u64, "line");
            note(&format!(
                "{interface}: {lines} of the history left out: no events, but remains of killed commands"
            ));
        }
        document(arguments.programs.json, &history, || {
            show::history::lines(&history, &asked)
        })
    };
    each(&arguments.on.interfaces, show).await
}
