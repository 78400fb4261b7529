//! `limiter detach`.

use crate::cli::{args, output::print};
use crate::kernel::detach::{detach, detach_all};

pub async fn run(arguments: args::Detach) -> anyhow::Result<()> {
    if arguments.all {
        let names = detach_all().await?;
        if names.is_empty() {
            print("limiter was not attached to anything\n")?;
        }
        for name in names {
            print(&format!("{name}: detached\n"))?;
        }
        return Ok(());
    }
    // One that fails does not keep the others attached.
    let mut failed = None;
    for interface in &arguments.interfaces {
        match detach(interface).await {
            Ok(()) => print(&format!("{interface}: detached\n"))?,
            Err(error) => failed = Some(failed.unwrap_or(error)),
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
