//! `limiter reset`.

use std::net::IpAddr;

use clap::Args;

use crate::{
    cli::shared::{
        interfaces::{OnOne, each},
        output::outcome,
        values::address,
    },
    kernel::Attachment,
    observe::check::keys_of,
    show::units::grouped,
};

/// Refill the buckets of one source, or of all sources
#[derive(Debug, Args)]
pub struct Reset {
    #[command(flatten)]
    on: OnOne,
    /// Address of the source, as in 192.0.2.7
    #[arg(value_name = "ADDRESS", value_parser = address, required_unless_present = "all", conflicts_with = "all")]
    address: Option<IpAddr>,
    /// Refill the buckets of all sources
    #[arg(long)]
    all: bool,
}

pub async fn run(arguments: Reset) -> anyhow::Result<()> {
    each(&arguments.on.interfaces, async |interface| {
        one(interface, arguments.address).await
    })
    .await
}

async fn one(interface: &str, address: Option<IpAddr>) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let _lock = attachment.lock()?;
    let (unchanged, text) = match address {
        Some(address) => forget(&attachment, address),
        None => match attachment.tables.sets.forget_all() {
            0 => (true, "no source is in the table".to_owned()),
            count => (
                false,
                format!("{} forgotten: every bucket is full again", grouped(count)),
            ),
        },
    };
    let why = if unchanged { "unchanged: " } else { "" };
    outcome(unchanged, &format!("{interface}: {why}{text}\n"));
    Ok(())
}

/// Forgets the address's buckets under all limits that may apply to it. Returns whether there were none, and a report.
fn forget(attachment: &Attachment, address: IpAddr) -> (bool, String) {
    let mut names: Vec<String> = Vec::new();
    let mut found = false;
    let tables = &attachment.tables;
    for (limit, slot) in attachment.record.with_slots() {
        if !limit.matches.holds_version_of(address) {
            continue;
        }
        let name = (limit.key).show_source(&limit.key.of(slot.number, address, 0));
        if !names.contains(&name) {
            names.push(name);
        }
        for key in keys_of(&limit.key, slot.number, address, tables) {
            found |= tables.sets.forget(&key);
        }
    }
    if names.is_empty() {
        return (
            true,
            format!("no limit matches {address}: it has no bucket"),
        );
    }
    let (are, were, buckets) = match names.len() {
        1 => ("is", "was", "its bucket is"),
        _ => ("are", "were", "their buckets are"),
    };
    let names = names.join(" and ");
    match found {
        true => (
            false,
            format!("{names} {are} forgotten: {buckets} full again"),
        ),
        false => (
            true,
            format!("{names} {were} not in the table: {buckets} full"),
        ),
    }
}
