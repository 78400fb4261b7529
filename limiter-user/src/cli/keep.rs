//! `limiter keep`.

use crate::{
    cli::{
        args,
        interfaces::each,
        output::{outcome, report},
    },
    kernel::state::trial::{Kept, keep},
};

pub async fn run(arguments: args::Keep) -> anyhow::Result<()> {
    each(&arguments.on.interfaces, one).await
}

async fn one(interface: &str) -> anyhow::Result<()> {
    match keep(interface).await? {
        Kept::Now => report(&format!(
            "{interface}: kept; undo with `limiter detach {interface}`\n"
        )),
        Kept::Already => {
            let text = format!("{interface}: unchanged: not on trial, it is kept already\n");
            outcome(true, &text);
        }
    }
    Ok(())
}
