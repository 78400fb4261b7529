use clap::Args;
use limiter_kernel::{
    Attachment,
    ops::{
        detach::detach,
        trial::{Ended, end},
    },
};

use crate::cli::shared::{Extent, ForPrograms, On, each, keep_last, outcome, record};

/// Keep a change that is on trial (`--try`), or revert it
#[derive(Debug, Args)]
pub struct Keep {
    #[command(flatten)]
    on: On,
    /// Revert the change now instead
    #[arg(long)]
    revert: bool,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Keep) -> anyhow::Result<()> {
    arguments.programs.changes();
    let keep = async |interface: &str| keep_on(interface, arguments.revert).await;
    each(&arguments.on.interfaces, keep).await
}

/// Writes the end of a trial to the history, and keeps the settings that stay.
pub async fn record_end(interface: &str, ended: Ended) {
    match ended {
        Ended::Kept => {
            record(interface, "keep", &[]);
            if let Ok(attachment) = Attachment::open(interface).await
                && let Ok(own) = attachment.own_settings()
            {
                keep_last(interface, &attachment.record, &own);
            }
        }
        Ended::Reverted => record(interface, "revert", &[]),
        Ended::NothingBefore | Ended::NoTrial | Ended::LogEnded => {}
    }
}

async fn keep_on(interface: &str, revert: bool) -> anyhow::Result<()> {
    let ended = end(interface, revert).await?;
    record_end(interface, ended).await;
    let text = match ended {
        Ended::NothingBefore => {
            detach(interface).await?;
            record(
                interface,
                "revert",
                &["detached: nothing was limited before the trial".to_owned()],
            );
            "detached: nothing was limited before the trial".to_owned()
        }
        Ended::Kept => format!("kept; `limiter detach {interface}` stops limiting"),
        Ended::Reverted => "trial reverted; the settings before it are in force again".to_owned(),
        Ended::LogEnded => "log ended".to_owned(),
        Ended::NoTrial => "unchanged: not on trial".to_owned(),
    };
    outcome(interface, Extent::of(ended == Ended::NoTrial), &text);
    Ok(())
}
