use clap::Args;
use ipnet::IpNet;

use super::edit::first_of;
use crate::{
    cli::shared::{OnOne, each, note, outcome, prefix},
    config::lists::show,
    kernel::{Attachment, Result, sys::clock},
    observe::{Asked, readers},
};

/// End bans, and the holds of limits on the same addresses
#[derive(Debug, Args)]
pub struct Unban {
    #[command(flatten)]
    on: OnOne,
    /// Addresses or prefixes as they were banned, or addresses that a limit holds. `reset` ends holds of other keys
    #[arg(value_name = "CIDR", value_parser = prefix, required = true)]
    prefixes: Vec<IpNet>,
}

pub async fn run(arguments: Unban) -> anyhow::Result<()> {
    let unban = async |interface: &str| unban(interface, &arguments.prefixes).await;
    each(&arguments.on.interfaces, unban).await
}

async fn unban(interface: &str, prefixes: &[IpNet]) -> anyhow::Result<()> {
    let mut attachment = Attachment::open(interface).await?;
    let _lock = attachment.lock()?;
    let removed = attachment.bans.remove(prefixes, clock::now()?)?;
    let (mut ended, mut missing) = (Vec::new(), Vec::new());
    for prefix in prefixes {
        match end_holds(&attachment, prefix)? || removed.contains_key(prefix) {
            true => ended.push(prefix),
            false => missing.push(prefix),
        }
    }
    let missing = missing.first().map(|first| {
        let around = clock::now().and_then(|now| attachment.bans.of(first.addr(), 0, now));
        let around = around.ok().flatten();
        let around =
            around.map(|(around, _)| format!("; the ban of {} contains it", show(&around)));
        format!(
            "{} is not banned{}",
            show(first),
            around.unwrap_or_default()
        )
    });
    match (first_of(ended.into_iter()), missing) {
        (Some(ended), missing) => {
            outcome(
                missing.is_some(),
                &format!("{interface}: {ended} unbanned\n"),
            );
            missing.iter().for_each(|why| note(why));
        }
        (None, why) => {
            let why = why.unwrap_or_default();
            outcome(true, &format!("{interface}: unchanged: {why}\n"));
        }
    }
    Ok(())
}

/// Ends the holds of limits on an address. Returns false if there were none.
fn end_holds(attachment: &Attachment, prefix: &IpNet) -> Result<bool> {
    if prefix.prefix_len() != prefix.max_prefix_len() {
        return Ok(false);
    }
    let asked = Asked::about(prefix.addr()).under(&attachment.interface.name);
    let sets = &attachment.tables.sets;
    let mut any = false;
    for reader in readers(attachment)? {
        let key = &reader.limit.key;
        if reader.limit.hold.is_some() && asked.missing(key).is_empty() {
            for key in asked.keys(key, reader.slot, &attachment.tables) {
                let held = sets.source(&key).and_then(|source| reader.held(&source));
                any |= held.is_some() && sets.forget(&key);
            }
        }
    }
    Ok(any)
}
