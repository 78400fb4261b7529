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
    /// Addresses or prefixes as they were banned, or addresses that a limit holds
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
    let (mut ended, mut missing) = (removed.len(), Vec::new());
    for prefix in prefixes {
        let held = end_holds(&attachment, prefix)?;
        ended += held;
        if held == 0 && !removed.contains_key(prefix) {
            missing.push(prefix);
        }
    }
    let not_there = first_of(missing.iter().copied()).map(|first| {
        let address = missing.first().map(|prefix| prefix.addr());
        let around = address.and_then(|it| attachment.bans.of(it, 0, clock::now().ok()?).ok()?);
        let around =
            around.map(|(around, _)| format!("; the ban of {} contains it", show(&around)));
        format!("{first} is not banned{}", around.unwrap_or_default())
    });
    let unbanned = prefixes.iter().filter(|prefix| !missing.contains(prefix));
    match (first_of(unbanned), not_there) {
        (None, Some(why)) => outcome(true, &format!("{interface}: unchanged: {why}\n")),
        (unbanned, why) => {
            let unbanned = unbanned.unwrap_or_default();
            outcome(ended == 0, &format!("{interface}: {unbanned} unbanned\n"));
            why.iter().for_each(|why| note(why));
        }
    }
    Ok(())
}

/// Ends the holds of limits on an address. Returns the number of its buckets that are full again.
fn end_holds(attachment: &Attachment, prefix: &IpNet) -> Result<usize> {
    if prefix.prefix_len() != prefix.max_prefix_len() {
        return Ok(0);
    }
    let asked = Asked {
        source: prefix.addr(),
        to: None,
        port: None,
        from_port: None,
        protocol: None,
    };
    let asked = asked.under(&attachment.interface.name);
    let sets = &attachment.tables.sets;
    let mut ended = 0;
    for reader in readers(attachment)? {
        let key = &reader.limit.key;
        if reader.limit.hold.is_none() || !asked.missing(key).is_empty() {
            continue;
        }
        for key in asked.keys(key, reader.slot, &attachment.tables) {
            let is_held = sets
                .source(&key)
                .is_some_and(|it| reader.held(&it).is_some());
            ended += usize::from(is_held && sets.forget(&key));
        }
    }
    Ok(ended)
}
