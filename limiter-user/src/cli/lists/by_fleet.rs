//! Edits of a list that a fleet shares: the agent passes them to the store, and so to all hosts.

use super::edit::{Edit, denied_too, edited, first_of, missing};
use limiter_fleet::store;

use crate::{
    agent::ask,
    cli::shared::{note, outcome},
    config::{Invalid, Prefixes, Settings, invalid, lists::prefix},
    kernel::Attachment,
};

/// The settings in force on this host after the edit. `in_force` are the present ones, and `own` this host's own.
pub fn after(
    edit: Edit,
    own: &Settings,
    in_force: &Settings,
    name: &str,
    prefixes: &Prefixes,
) -> Option<Settings> {
    let mut own = own.clone();
    match edit {
        Edit::Add(_) => edited(edit, in_force, name, prefixes).ok(),
        Edit::Remove => edited(
            edit,
            in_force,
            name,
            &(prefixes - own.lists.named_mut(name)?),
        )
        .ok(),
        Edit::Replace => None,
    }
}

/// Edits the list on all hosts, and prints the result. On return, the edit is in force on this host.
pub async fn put_in_force(
    edit: Edit,
    attachment: Attachment,
    name: &str,
    prefixes: &Prefixes,
) -> anyhow::Result<()> {
    let interface = attachment.interface.name.clone();
    let fleet = attachment.record.settings.fleet.clone();
    let fleet = fleet.unwrap_or_default();
    let mut own = attachment.own_settings()?;
    let own = own.lists.named_mut(name).cloned().unwrap_or_default();
    // Other commands that change the attachment must not wait for this one.
    drop(attachment);
    let given = prefixes.iter().copied().collect();
    let mut not_there = None;
    let (change, what) = match edit {
        Edit::Replace => {
            anyhow::bail!(invalid!(
                "{name} is shared by fleet '{fleet}', and replacing it could remove prefixes that other hosts add; nothing was changed: use `remove` and `add`"
            ));
        }
        Edit::Add(lasts) => {
            let prefixes = given;
            (store::Edit::Add { prefixes, lasts }, "added")
        }
        Edit::Remove => {
            let listed = ask::listed(&interface, name).await.map_err(unchanged)?;
            let of_fleet = listed.iter().filter_map(|it| prefix(&it.prefix).ok());
            let of_fleet = of_fleet.collect();
            may_remove(name, prefixes, &own, &of_fleet)?;
            not_there = missing(name, prefixes, &of_fleet);
            (store::Edit::Remove(given), "removed")
        }
    };
    let changed = ask::edit(&interface, name, change)
        .await
        .map_err(unchanged)?;
    let time = match edit {
        Edit::Add(Some(lasts)) => format!(", for {}", humantime::format_duration(lasts)),
        _ => String::new(),
    };
    let text = match changed {
        0 => {
            let why = not_there.as_deref().unwrap_or("already in force");
            format!("unchanged: {why}, on all hosts of fleet '{fleet}'")
        }
        _ => format!("{name}: {changed} {what}{time}, on all hosts of fleet '{fleet}'"),
    };
    let in_force = Attachment::open(&interface).await?.settings()?;
    let stays = || {
        let stay = first_of(prefixes.intersection(&own))?;
        Some(format!(
            "{stay} stays on {name} here, because this host's own configuration has it too"
        ))
    };
    let unchanged = changed == 0 || not_there.is_some();
    let notes = match edit {
        Edit::Remove => stays(),
        _ => denied_too(name, prefixes, &in_force),
    };
    outcome(unchanged, &format!("{interface}: {text}\n"));
    let notes = not_there.filter(|_| changed > 0).into_iter().chain(notes);
    notes.for_each(|text| note(&text));
    Ok(())
}

/// Fails if one of the prefixes is only this host's own. Then nothing is removed.
fn may_remove(
    name: &str,
    prefixes: &Prefixes,
    own: &Prefixes,
    of_fleet: &Prefixes,
) -> Result<(), Invalid> {
    let Some(own) = first_of(
        prefixes
            .intersection(own)
            .filter(|own| !of_fleet.contains(own)),
    ) else {
        return Ok(());
    };
    Err(invalid!(
        "{own} is on {name} by this host's own configuration, not by the fleet; nothing was removed: remove it from the configuration file, and run `limiter reload`"
    ))
}

/// The error for a list of the fleet that cannot be changed.
fn unchanged(error: ask::Error) -> anyhow::Error {
    match error {
        ask::Error::NoAgent => anyhow::anyhow!(
            "a fleet shares this list, and only its agent can change it; nothing was changed: {error}"
        ),
        error => error.into(),
    }
}
