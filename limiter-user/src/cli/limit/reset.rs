use std::net::IpAddr;

use clap::Args;
use limiter_common::table::key::SourceKey;

use crate::{
    cli::shared::{OfPacket, OnOne, address, each, outcome},
    config::{Limit, Parts},
    kernel::Attachment,
    observe::Asked,
    show::units::grouped,
};

/// Refill the buckets of one source, or of all sources
#[derive(Debug, Args)]
pub struct Reset {
    #[command(flatten)]
    on: OnOne,
    /// Address of the source, as in 192.0.2.7; with IFACE:out, of the destination
    #[arg(value_name = "ADDRESS", value_parser = address, required_unless_present = "all", conflicts_with = "all")]
    address: Option<IpAddr>,
    #[command(flatten)]
    of: OfPacket,
    /// Refill the buckets of all sources
    #[arg(long)]
    all: bool,
}

pub async fn run(arguments: Reset) -> anyhow::Result<()> {
    let asked = arguments.address.map(|source| arguments.of.from(source));
    let asked = asked.transpose()?;
    let one = async |interface: &str| {
        let asked = asked.map(|asked| asked.under(interface));
        one(interface, asked.as_ref()).await
    };
    each(&arguments.on.interfaces, one).await
}

async fn one(interface: &str, asked: Option<&Asked>) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let _lock = attachment.lock()?;
    let (unchanged, text) = match asked {
        Some(asked) => forget(&attachment, asked),
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
fn forget(attachment: &Attachment, asked: &Asked) -> (bool, String) {
    let address = asked.source;
    let mut names: Vec<String> = Vec::new();
    let (mut found, mut any) = (false, false);
    let mut others: Vec<String> = Vec::new();
    let tables = &attachment.tables;
    for (limit, slot) in attachment.record.with_slots() {
        if !limit.matches.holds_version_of(address) {
            continue;
        }
        if !limit.key.is_by_source() {
            let (forgotten, said) = forget_others(attachment, &limit, slot.number, asked);
            any |= forgotten > 0;
            others.push(said);
            continue;
        }
        let name = (limit.key).show_source(&limit.key.of(slot.number, address, 0));
        if !names.contains(&name) {
            names.push(name);
        }
        for key in asked.keys(&limit.key, slot.number, tables) {
            found |= tables.sets.forget(&key);
        }
    }
    let (are, were, buckets) = match names.len() {
        1 => ("is", "was", "its bucket is"),
        _ => ("are", "were", "their buckets are"),
    };
    let said = match (names.join(" and "), found) {
        (names, _) if names.is_empty() && others.is_empty() => {
            Some(format!("no limit matches {address}: it has no bucket"))
        }
        (names, _) if names.is_empty() => None,
        (names, true) => Some(format!("{names} {are} forgotten: {buckets} full again")),
        (names, false) => Some(format!("{names} {were} not in the table: {buckets} full")),
    };
    let said: Vec<_> = said.into_iter().chain(others).collect();
    (!found && !any, said.join("; "))
}

/// Forgets the buckets of a limit whose keys have a destination: the one asked for, or without options those whose keys
/// say that they are from the source. Returns the number of buckets, and a report.
fn forget_others(
    attachment: &Attachment,
    limit: &Limit,
    slot: u32,
    asked: &Asked,
) -> (u64, String) {
    let Limit { name, key, .. } = limit;
    let (tables, source) = (&attachment.tables, asked.source);
    let missing = asked.missing(key);
    let why = match (key.parts, source) {
        _ if missing.is_empty() => {
            let keys = asked.keys(key, slot, tables);
            let count = keys.iter().filter(|key| tables.sets.forget(key)).count();
            return forgotten(name, count as u64);
        }
        (Parts::Destination(_), _) => "its buckets are of destinations",
        (_, IpAddr::V6(_)) => "its keys are hashes of IPv6 addresses",
        (_, IpAddr::V4(_)) if asked.names_more() => "its key needs more",
        (_, IpAddr::V4(_)) => {
            let is_its = |of: &SourceKey| of.slot() == slot && key.is_from(of, source);
            return forgotten(name, tables.sets.forget_where(is_its));
        }
    };
    let text = format!(
        "limit '{name}' is not reset, because {why}: add {}, or `limiter reset {} --all` refills all buckets",
        missing.join(", "),
        attachment.interface.name
    );
    (0, text)
}

fn forgotten(limit: &str, count: u64) -> (u64, String) {
    let text = match count {
        0 => format!("limit '{limit}' had no bucket of it"),
        1 => format!("1 bucket of limit '{limit}' is full again"),
        _ => format!(
            "{} buckets of limit '{limit}' are full again",
            grouped(count)
        ),
    };
    (count, text)
}
