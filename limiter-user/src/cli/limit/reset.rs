//! `limiter reset`.

use std::net::IpAddr;

use clap::Args;

use crate::{
    cli::shared::{
        interfaces::{Names, each, names},
        output::Outcome,
        values::address,
    },
    kernel::Attachment,
    show::units::grouped,
};

/// Refill the buckets of one source, or of all sources
#[derive(Debug, Args)]
pub struct Reset {
    /// The interface, several as in eth0,eth1, or `all` for all that limiter is attached to
    #[arg(value_name = "IFACE", value_parser = names)]
    interfaces: Names,
    /// Address of the source, as in 192.0.2.7
    #[arg(value_name = "ADDRESS", value_parser = address, required_unless_present = "all", conflicts_with = "all")]
    address: Option<IpAddr>,
    /// Refill the buckets of all sources
    #[arg(long)]
    all: bool,
}

pub async fn run(arguments: Reset) -> anyhow::Result<()> {
    let interfaces = &arguments.interfaces.0;
    each(interfaces, async |interface| {
        one(interface, arguments.address).await
    })
    .await
}

async fn one(interface: &str, address: Option<IpAddr>) -> anyhow::Result<()> {
    let outcome = match address {
        Some(address) => reset(interface, address).await?,
        None => {
            let attachment = Attachment::open(interface).await?;
            let _lock = attachment.lock()?;
            let count = attachment.tables.sets.forget_all();
            match count {
                0 => unchanged("no source is in the table".to_owned()),
                _ => forgotten(format!(
                    "{} forgotten: every bucket is full again",
                    grouped(count)
                )),
            }
        }
    };
    outcome.tell(interface);
    Ok(())
}

fn forgotten(text: String) -> Outcome {
    Outcome {
        unchanged: false,
        text,
        notes: Vec::new(),
    }
}

fn unchanged(why: String) -> Outcome {
    Outcome {
        unchanged: true,
        ..forgotten(format!("unchanged: {why}"))
    }
}

/// Forgets a source.
pub async fn reset(interface: &str, address: IpAddr) -> anyhow::Result<Outcome> {
    let mut attachment = Attachment::open(interface).await?;
    let _lock = attachment.lock()?;
    forget(&mut attachment, address)
}

/// Forgets the address's buckets under all limits that may apply to it.
fn forget(attachment: &mut Attachment, address: IpAddr) -> anyhow::Result<Outcome> {
    let mut names: Vec<String> = Vec::new();
    let mut found = false;
    let limits = attachment.record.with_slots().into_iter();
    let holding = limits.filter(|(limit, _)| limit.matches.holds_version_of(address));
    for (limit, slot) in holding {
        let key = limit.key.of(slot.number, address, 0);
        let name = limit.key.show_source(&key);
        if !names.contains(&name) {
            names.push(name);
        }
        if !limit.key.by_port {
            found |= attachment.tables.sets.forget(&key);
            continue;
        }
        for (other, _) in attachment.tables.sets.sources() {
            let same = (other.slot(), other.family(), other.address())
                == (key.slot(), key.family(), key.address());
            found |= same && attachment.tables.sets.forget(&other);
        }
    }
    if names.is_empty() {
        return Ok(unchanged(format!(
            "no limit matches {address}: it has no bucket"
        )));
    }
    let (are, were, buckets) = if names.len() == 1 {
        ("is", "was", "its bucket is")
    } else {
        ("are", "were", "their buckets are")
    };
    let names = names.join(" and ");
    Ok(if found {
        forgotten(format!("{names} {are} forgotten: {buckets} full again"))
    } else {
        unchanged(format!("{names} {were} not in the table: {buckets} full"))
    })
}
