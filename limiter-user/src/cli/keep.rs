//! `limiter keep`.

use crate::cli::{
    args,
    output::{note, outcome, report},
};
use crate::kernel::trial::{Kept, keep};

pub async fn run(arguments: args::Keep) -> anyhow::Result<()> {
    // One that fails does not keep the others on trial. Each failure is told; the last one ends it.
    let mut failed = None;
    for interface in &arguments.interfaces {
        match keep(interface).await {
            Ok(Kept::Now) => report(&format!(
                "{interface}: kept; undo with `limiter detach {interface}`\n"
            )),
            Ok(Kept::Already) => {
                let text = format!("{interface}: unchanged: not on trial, it is kept already\n");
                outcome(true, &text);
            }
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    note(&earlier.to_string());
                }
            }
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
