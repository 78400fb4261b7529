use std::net::IpAddr;

use clap::Args;
use limiter_common::table::key::SourceKey;
use limiter_config::Limit;
use limiter_kernel::Attachment;

use crate::{
    cli::shared::{Extent, ForPrograms, OnOne, address, each, outcome, record},
    observe::Query,
    show::units::{counted, grouped},
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
    query: Query,
    /// Refill the buckets of all sources
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(arguments: Reset) -> anyhow::Result<()> {
    arguments.programs.changes();
    let query = arguments.address.map(|source| arguments.query.from(source));
    let query = query.transpose()?;
    let reset = async |interface: &str| {
        let query = query.map(|query| query.under(interface));
        reset_on(interface, query.as_ref()).await
    };
    each(&arguments.on.interfaces, reset).await
}

async fn reset_on(interface: &str, query: Option<&Query>) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let _lock = attachment.lock()?;
    let (count, text) = match query {
        Some(query) => forget(&attachment, query),
        None => {
            let count = attachment.tables.sets.forget_where(|_| true);
            let text = match count {
                0 => "no source is in the table".to_owned(),
                _ => format!("{} forgotten: every bucket is full again", grouped(count)),
            };
            (count, text)
        }
    };
    if count > 0 {
        record(interface, "reset", std::slice::from_ref(&text));
    }
    let why = if count == 0 { "unchanged: " } else { "" };
    outcome(interface, Extent::of(count == 0), &format!("{why}{text}"));
    Ok(())
}

/// Forgets the address's buckets under all limits that may apply to it. Returns their number, and a report.
fn forget(attachment: &Attachment, query: &Query) -> (u64, String) {
    let (mut buckets, mut others) = (None, Vec::new());
    for (limit, slot) in attachment.record.with_slots() {
        if !limit.matches.holds_version_of(query.source) {
            continue;
        }
        match forget_under(&limit, slot.number, attachment, query) {
            Ok(more) => buckets = Some(buckets.unwrap_or(0) + more),
            Err(why) => others.push(why),
        }
    }
    let source = query.source;
    let said = match buckets {
        None if others.is_empty() => Some(format!("no limit matches {source}: it has no bucket")),
        None => None,
        Some(0) => Some(format!(
            "{source} was not in the table: its buckets are full"
        )),
        Some(count) => Some(format!("refilled {} of {source}", counted(count, "bucket"))),
    };
    let said: Vec<_> = said.into_iter().chain(others).collect();
    (buckets.unwrap_or(0), said.join("; "))
}

/// Forgets the buckets of one limit: those asked for, or without options those whose keys say that they are from the
/// source. Returns their number, or why they cannot be told.
fn forget_under(
    Limit { name, key, .. }: &Limit,
    slot: u32,
    attachment: &Attachment,
    query: &Query,
) -> Result<u64, String> {
    let (tables, source) = (&attachment.tables, query.source);
    let nat64 = attachment.record.settings.translators();
    let missing = query.missing(key);
    if missing.is_empty() {
        let keys = query.keys(key, slot, tables, &nat64);
        let count = keys.iter().filter(|key| tables.sets.forget(key)).count();
        return Ok(count as u64);
    }
    if key.has_both() && source.is_ipv4() && !query.names_more() {
        let is_its = |entry: &SourceKey| entry.slot() == slot && key.is_from(entry, source);
        return Ok(tables.sets.forget_where(is_its));
    }
    Err(format!(
        "limit '{name}' is not reset, because its key has more: add {}, or `limiter reset {} --all` refills all buckets",
        missing.join(", "),
        attachment.interface.name
    ))
}
