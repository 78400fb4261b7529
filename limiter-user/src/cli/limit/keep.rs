use clap::Args;

use crate::{
    cli::shared::{On, each, outcome, report},
    kernel::ops::{
        detach::detach,
        trial::{Ended, end},
    },
};

/// Keep a change that is on trial (`--try`), or revert it
#[derive(Debug, Args)]
pub struct Keep {
    #[command(flatten)]
    on: On,
    /// Revert the change now instead
    #[arg(long)]
    revert: bool,
}

pub async fn run(arguments: Keep) -> anyhow::Result<()> {
    let one = async |interface: &str| one(interface, arguments.revert).await;
    each(&arguments.on.interfaces, one).await
}

async fn one(interface: &str, revert: bool) -> anyhow::Result<()> {
    match end(interface, revert).await? {
        Ended::NothingBefore => {
            detach(interface).await?;
            report(&format!(
                "{interface}: detached: nothing was limited before the trial\n"
            ));
        }
        Ended::Kept => report(&format!(
            "{interface}: kept; `limiter detach {interface}` stops limiting\n"
        )),
        Ended::Reverted => report(&format!(
            "{interface}: trial reverted; the settings before it are in force again\n"
        )),
        Ended::NoTrial => {
            let text = format!("{interface}: unchanged: not on trial\n");
            outcome(true, &text);
        }
    }
    Ok(())
}
