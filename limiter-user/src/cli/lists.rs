//! `limiter allow`, `limiter deny` and `limiter tier`.

use std::path::{Path, PathBuf};

use crate::cli::{
    args::{GivenPrefixes, ListEdit, ListShow, ListVerb, TierEdit, TierShow, TierVerb},
    output::{note, print, print_json},
    ssh,
};
use crate::config::{
    Invalid, Settings,
    lists::{self, Prefixes, show},
};
use crate::kernel::{Attachment, set::set};
use crate::stats::Listing;

/// What to do with the prefixes that are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Put them on the list too.
    Add,
    /// Take them off it.
    Remove,
    /// Put them in the place of what is on it.
    Replace,
}

/// What an edit has done, in words.
#[derive(Debug)]
pub struct Edited {
    /// The result.
    pub text: String,
    /// What is good to know beside it.
    pub notes: Vec<String>,
}

/// One of the two lists that every configuration has.
pub async fn run(name: &str, verb: ListVerb) -> anyhow::Result<()> {
    let (
        edit,
        ListEdit {
            interface,
            prefixes,
        },
    ) = match verb {
        ListVerb::Add(arguments) => (Edit::Add, arguments),
        ListVerb::Remove(arguments) => (Edit::Remove, arguments),
        ListVerb::Replace(arguments) => (Edit::Replace, arguments),
        ListVerb::List(ListShow { interface, json }) => return list(&interface, name, json).await,
    };
    change(edit, &interface, name, &prefixes).await
}

/// A list with a name of its own.
pub async fn run_tier(verb: TierVerb) -> anyhow::Result<()> {
    let (edit, arguments) = match verb {
        TierVerb::Add(arguments) => (Edit::Add, arguments),
        TierVerb::Remove(arguments) => (Edit::Remove, arguments),
        TierVerb::Replace(arguments) => (Edit::Replace, arguments),
        TierVerb::List(TierShow {
            interface,
            name,
            json,
        }) => return list(&interface, &name, json).await,
    };
    let TierEdit {
        interface,
        name,
        prefixes,
    } = arguments;
    if name == lists::ALLOW || name == lists::DENY {
        return Err(crate::cli::output::Usage(format!(
            "'{name}' is no tier: write `limiter {name}` for it"
        ))
        .into());
    }
    change(edit, &interface, &name, &prefixes).await
}

async fn list(interface: &str, name: &str, json: bool) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let mut settings = attachment.settings()?;
    let prefixes = find(&mut settings, name)?;
    let shown: Vec<_> = prefixes.iter().map(show).collect();
    if json {
        return print_json(&Listing {
            interface: interface.to_owned(),
            list: name.to_owned(),
            prefixes: shown,
        });
    }
    let lines: String = shown.iter().map(|prefix| format!("{prefix}\n")).collect();
    Ok(print(&lines)?)
}

async fn change(
    edit: Edit,
    interface: &str,
    name: &str,
    given: &GivenPrefixes,
) -> anyhow::Result<()> {
    let prefixes = all_given(given)?;
    if let Some(warning) = warning(edit, interface, name, &prefixes).await {
        note(&warning);
    }
    let Edited { text, notes } = put_in_force(edit, interface, name, &prefixes).await?;
    print(&format!("{interface}: {text}\n"))?;
    notes.iter().for_each(|text| note(text));
    Ok(())
}

/// What the edit would do to the SSH session that this runs in, if that is worse off by it.
pub async fn warning(
    edit: Edit,
    interface: &str,
    name: &str,
    prefixes: &Prefixes,
) -> Option<String> {
    let edited = |settings: &Settings| edited(edit, settings, name, prefixes);
    let advice = |client: &str| ssh::allow_first(interface, client);
    ssh::warning_of_change(interface, edited, advice).await
}

/// Edits a list while traffic flows.
pub async fn put_in_force(
    edit: Edit,
    interface: &str,
    name: &str,
    prefixes: &Prefixes,
) -> anyhow::Result<Edited> {
    let swapped = set(interface, |settings| edited(edit, settings, name, prefixes)).await?;
    let (mut old, mut new) = (swapped.old, swapped.new);
    let (before, after) = (find(&mut old, name)?, find(&mut new, name)?);
    let (added, removed) = (
        after.difference(before).count(),
        before.difference(after).count(),
    );
    let changed = match (added, removed) {
        (0, 0) => "unchanged: it was so already".to_owned(),
        (added, 0) => format!("{added} added"),
        (0, removed) => format!("{removed} removed"),
        (added, removed) => format!("{added} added, {removed} removed"),
    };
    let text = format!("{name}: {changed}, {} on it now", after.len());
    let unknown_to = |file: PathBuf| {
        format!(
            "{} does not know of it: `limiter reload {interface}` would put its list in force again",
            file.display()
        )
    };
    let notes = denied_too(name, prefixes, &new).into_iter();
    Ok(Edited {
        text,
        notes: notes.chain(swapped.file.map(unknown_to)).collect(),
    })
}

fn edited(
    edit: Edit,
    settings: &Settings,
    name: &str,
    prefixes: &Prefixes,
) -> Result<Settings, Invalid> {
    let mut new = settings.clone();
    apply(edit, find(&mut new, name)?, prefixes, name)?;
    Ok(new)
}

/// What was put on `allow` in vain.
fn denied_too(name: &str, given: &Prefixes, new: &Settings) -> Option<String> {
    if name != lists::ALLOW {
        return None;
    }
    let on_both = given.intersection(&new.lists.deny);
    let mut on_both = on_both.filter(|prefix| new.lists.allow.contains(prefix));
    let first = on_both.next()?;
    let more = match on_both.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{}{more} is on deny too, which goes before allow where both have the same prefix",
        show(first)
    ))
}

/// From the command line and the file.
fn all_given(given: &GivenPrefixes) -> anyhow::Result<Prefixes> {
    let mut prefixes: Prefixes = given.prefixes.iter().copied().collect();
    if let Some(path) = &given.file {
        prefixes.extend(read(path)?);
    }
    Ok(prefixes)
}

fn read(path: &Path) -> anyhow::Result<Prefixes> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        anyhow::anyhow!(
            "{} cannot be read ({error}): is that the file?",
            path.display()
        )
    })?;
    lists::read(&text).map_err(|mistakes| {
        let mut lines = mistakes.iter();
        let first = lines
            .next()
            .map_or_else(String::new, |(line, why)| format!(", line {line}: {why}"));
        let more = match lines.len() {
            0 => String::new(),
            more => format!("; and {more} more such lines"),
        };
        anyhow::anyhow!("{}{first}{more}", path.display())
    })
}

fn find<'a>(settings: &'a mut Settings, name: &str) -> Result<&'a mut Prefixes, Invalid> {
    let tiers: Vec<_> = settings.lists.tiers.keys().cloned().collect();
    settings.lists.named_mut(name).ok_or_else(|| {
        let known = if tiers.is_empty() {
            "no configuration file has defined one".to_owned()
        } else {
            format!("there is {}", tiers.join(", "))
        };
        Invalid(format!(
            "there is no list '{name}' ({known}): write it under [lists] of the file, and reload"
        ))
    })
}

fn apply(edit: Edit, list: &mut Prefixes, prefixes: &Prefixes, name: &str) -> Result<(), Invalid> {
    match edit {
        Edit::Add => list.extend(prefixes),
        Edit::Replace => list.clone_from(prefixes),
        Edit::Remove => {
            if let Some(missing) = prefixes.iter().find(|prefix| !list.contains(prefix)) {
                return Err(Invalid(format!(
                    "{} is not on {name}, and nothing was removed: `list` in the place of `remove` prints what is",
                    show(missing)
                )));
            }
            list.retain(|prefix| !prefixes.contains(prefix));
        }
    }
    Ok(())
}
