//! `limiter keep`.

use crate::{
    cli::{
        args,
        interfaces::each,
        output::{outcome, report},
    },
    kernel::ops::{
        detach::detach,
        trial::{Ended, end},
    },
};

pub async fn run(arguments: args::Keep) -> anyhow::Result<()> {
    each(&arguments.on.interfaces, async |interface| {
        one(interface, arguments.revert).await
    })
    .await
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
            "{interface}: the trial is over, and what was before it holds again\n"
        )),
        Ended::NoTrial => {
            let text = format!("{interface}: unchanged: not on trial\n");
            outcome(true, &text);
        }
    }
    Ok(())
}
