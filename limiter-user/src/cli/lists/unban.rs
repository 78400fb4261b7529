use std::{collections::BTreeSet, path::PathBuf};

use anyhow::bail;
use clap::Args;
use ipnet::IpNet;

use limiter_config::lists::{BANS, show};
use limiter_fleet::question::Edit;
use limiter_kernel::{
    Attachment, Result,
    ops::bans::BY_FLEET,
    program::bans::{BY_HAND, origin, text},
    sys::clock,
};

use super::{
    by_fleet,
    edit::first_of,
    given::{Given, Use, prefixes, to_unban},
};
use crate::{
    cli::shared::{Extent, ForPrograms, OnOne, each, note, outcome, record},
    kept,
    observe::{Ban, Query, readers},
    show::bans::since,
};

/// End bans, and the holds of limits on the same addresses
///
/// Without --origin, a prefix is banned by no origin afterwards.
#[derive(Debug, Args)]
pub struct Unban {
    #[command(flatten)]
    on: OnOne,
    /// Addresses or prefixes as they were banned, or addresses that a limit holds; - for a list on standard input. `reset`
    /// ends holds of other keys
    #[arg(value_name = "CIDR", value_parser = to_unban, required_unless_present_any = ["all", "file"])]
    prefixes: Vec<Given>,
    /// File with a list, as for `ban`
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// End all bans; with --origin, all bans of that origin
    #[arg(long, conflicts_with_all = ["prefixes", "file"])]
    all: bool,
    /// Only end bans of this origin, and no holds; those of other origins stay
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,
    #[command(flatten)]
    programs: ForPrograms,
}

pub async fn run(mut arguments: Unban) -> anyhow::Result<()> {
    arguments.programs.changes();
    arguments.origin = arguments.origin.map(|name| origin(&name));
    let given = prefixes(Use::Unban, &arguments.prefixes, arguments.file.as_deref())?;
    let given: Vec<_> = given.into_iter().collect();
    let unban = async |interface: &str| unban(interface, &arguments, &given).await;
    each(&arguments.on.interfaces, unban).await
}

async fn unban(interface: &str, arguments: &Unban, given: &[IpNet]) -> anyhow::Result<()> {
    let origin = &arguments.origin;
    let mut attachment = Attachment::open(interface).await?;
    let prefixes = &match arguments.all {
        true => all(&attachment, origin.as_deref())?,
        false => given.to_vec(),
    };
    if prefixes.is_empty() && !arguments.all {
        outcome(interface, Extent::Nothing, "unchanged: the list is empty");
        return Ok(());
    }
    if prefixes.is_empty() {
        let of_origin = origin.iter().map(|origin| format!(" of {origin}"));
        let of_origin: String = of_origin.collect();
        let text = format!("unchanged: no bans{of_origin}");
        outcome(interface, Extent::Nothing, &text);
        return Ok(());
    }
    let mut of_fleet = Vec::new();
    if attachment.record.settings.shares(BANS) && origin.is_none() {
        for (prefix, ban) in attachment.bans.at(clock::now()?)? {
            if text(&ban.origin) == BY_FLEET && prefixes.contains(&prefix) {
                of_fleet.push(prefix);
            }
        }
        // The agent needs the lock of the attachment, and may load another program.
        match by_fleet::change_bans(interface, Edit::Remove(prefixes.clone())).await {
            Ok(changed) if changed == prefixes.len() as u64 => of_fleet.clone_from(prefixes),
            Ok(changed) if changed < of_fleet.len() as u64 => bail!(
                "the fleet's ban of {} is in force on {interface}, but not in the store: another host has just removed it, or the store has lost it and the agents put it back; nothing was changed here: repeat the command",
                first_of(of_fleet.iter()).unwrap_or_default()
            ),
            Ok(_) => {}
            Err(error) if of_fleet.is_empty() => note(&format!("bans of the fleet stay: {error}")),
            Err(error) => return Err(error),
        }
        attachment = Attachment::open(interface).await?;
    }
    let _lock = attachment.lock()?;
    let now = clock::now()?;
    let mut own = BTreeSet::new();
    for prefix in prefixes {
        for ban in attachment.bans.get(prefix, now)? {
            if origin
                .as_ref()
                .is_none_or(|origin| text(&ban.origin) == *origin)
            {
                own.insert((*prefix, ban.origin));
            }
        }
    }
    let removed = attachment.bans.remove(&own, now)?;
    let kept = match removed.iter().any(|(_, ban)| ban.is_kept != 0) {
        true => kept::write_change(&attachment),
        false => Ok(None),
    };
    let removed: BTreeSet<_> = removed.into_iter().map(|(prefix, _)| prefix).collect();
    let (mut ended, mut missing) = (Vec::new(), Vec::new());
    for prefix in prefixes {
        let released = origin.is_none() && end_holds(&attachment, prefix)?;
        match released || removed.contains(prefix) || of_fleet.contains(prefix) {
            true => ended.push(prefix),
            false => missing.push(prefix),
        }
    }
    let stays = still_banned(&attachment, &ended, now)?;
    let missing = missing.first().map(|first| {
        let around = attachment.bans.around(first, now).ok().flatten();
        let around =
            around.map(|around| format!("; the ban of {} contains it", show(&around.prefix)));
        let (first, around) = (show(first), around.unwrap_or_default());
        format!("{first} is not banned{around}")
    });
    if !ended.is_empty() && origin.as_ref().is_none_or(|origin| origin == BY_HAND) {
        let details: Vec<_> = ended.iter().map(|prefix| show(prefix)).collect();
        record(interface, "unban", &details);
    }
    let Some(ended) = first_of(ended.into_iter()) else {
        let why = missing.unwrap_or_default();
        let text = format!("unchanged: {why}");
        outcome(interface, Extent::Nothing, &text);
        return Ok(());
    };
    let extent = match missing {
        Some(_) => Extent::Part,
        None => Extent::All,
    };
    outcome(interface, extent, &format!("{ended} unbanned"));
    let kept_note = kept.as_ref().ok().cloned().flatten();
    let notes = missing.iter().chain(&stays).chain(&kept_note);
    notes.for_each(|why| note(why));
    kept.map(drop)
}

/// The note about a prefix that stays banned, by another origin or with a shorter prefix.
fn still_banned(attachment: &Attachment, ended: &[&IpNet], now: u64) -> Result<Option<String>> {
    for prefix in ended {
        let mut others = attachment.bans.get(prefix, now)?.into_iter();
        let by_others = others.find(|ban| ban.is_throttle == 0);
        let by_others = by_others.map(|ban| (**prefix, ban));
        let around = || attachment.bans.around(prefix, now);
        let still = match by_others {
            Some(other) => Some(other),
            None => around()?.map(|around| (around.prefix, around.ban)),
        };
        if let Some((ban_of, ban)) = still {
            let since = since(&Ban::new(&ban_of, &ban, 0, now));
            let within = match ban_of == **prefix {
                true => String::new(),
                false => format!(" within {}", show(&ban_of)),
            };
            return Ok(Some(format!(
                "{} stays banned{within} {since}",
                show(prefix)
            )));
        }
    }
    Ok(None)
}

/// The prefixes of all bans, or of those of one origin.
fn all(attachment: &Attachment, origin: Option<&str>) -> Result<Vec<IpNet>> {
    let bans = attachment.bans.at(clock::now()?)?.into_iter();
    let wanted = bans.filter(|(_, ban)| origin.is_none_or(|origin| text(&ban.origin) == origin));
    let prefixes: BTreeSet<_> = wanted.map(|(prefix, _)| prefix).collect();
    Ok(prefixes.into_iter().collect())
}

/// Ends the holds of limits on an address. Returns false if there were none.
fn end_holds(attachment: &Attachment, prefix: &IpNet) -> Result<bool> {
    if prefix.prefix_len() != prefix.max_prefix_len() {
        return Ok(false);
    }
    let query = Query::about(prefix.addr()).under(&attachment.interface.name);
    let nat64 = attachment.record.settings.translators();
    let sets = &attachment.tables.sets;
    let mut any = false;
    for reader in readers(attachment)? {
        let key = &reader.limit.key;
        if reader.limit.hold.is_some() && query.missing(key).is_empty() {
            for key in query.keys(key, reader.slot, &attachment.tables, &nat64) {
                let held = sets.source(&key).and_then(|source| reader.held(&source));
                any |= held.is_some() && sets.forget(&key);
            }
        }
    }
    Ok(any)
}
