//! `limiter allow`, `limiter deny` and `limiter tier`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};
use ipnet::IpNet;
use limiter_fleet::status::Listed;

use super::by_fleet;
use crate::{
    agent::ask,
    cli::shared::{
        interfaces::{OnOne, each},
        lasting::{Lasting, told_lasting},
        output::{Outcome, Usage, note, print, print_json},
        ssh::{allow_first, warning_of_change},
        values::{duration, prefix},
    },
    config::{
        Invalid, Settings,
        lists::{self, Prefixes, show},
    },
    kernel::{
        Attachment,
        ops::set::{Lasts, set},
    },
    observe::Listing,
    show,
};

/// Actions on a list. `On` selects the list and the interface.
#[derive(Debug, Subcommand)]
pub enum Verb<On: Args> {
    /// Put prefixes on it; all of them, or none if one is wrong
    Add {
        #[command(flatten)]
        given: Given<On>,
        /// Take them off again after this time (90s, 10m, 2h); for lists that a fleet shares
        #[arg(long = "for", value_name = "DURATION", value_parser = lasts)]
        lasts: Option<Duration>,
    },
    /// Take prefixes off it; those that are not there are named
    Remove(Given<On>),
    /// Put these prefixes in the place of all that are on it
    Replace(Given<On>),
    /// Print what is on it
    List {
        #[command(flatten)]
        on: On,
        /// For programs
        #[arg(long)]
        json: bool,
    },
}

// A list that has a name.
#[derive(Debug, Args)]
pub struct Tier {
    #[command(flatten)]
    on: OnOne,
    /// The list
    #[arg(value_name = "NAME")]
    name: String,
}

// Prefixes on the command line, or in a file.
#[derive(Debug, Args)]
pub struct Given<On: Args> {
    #[command(flatten)]
    on: On,
    /// The prefixes; an address stands for itself alone
    #[arg(value_name = "CIDR", value_parser = prefix, required_unless_present = "file")]
    prefixes: Vec<IpNet>,
    /// A file with one prefix a line; # begins a comment
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    lasting: Lasting,
}

fn lasts(text: &str) -> Result<Duration, String> {
    // A year in humantime, in seconds.
    const YEAR: u64 = 31_557_600;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(10 * YEAR);
    duration(text, bounds, "10m")
}

/// The edit for the given prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Adds them to the list; with a duration, for that time only.
    Add(Option<Duration>),
    /// Removes them from the list.
    Remove,
    /// Replaces the list's content by them.
    Replace,
}

/// Runs a verb on one of the two lists that every configuration has.
pub async fn run(name: &str, verb: Verb<OnOne>) -> anyhow::Result<()> {
    execute(verb, |on| Ok((on, name.to_owned()))).await
}

/// Runs a verb on a tier, a list with a user-defined name.
pub async fn run_tier(verb: Verb<Tier>) -> anyhow::Result<()> {
    execute(verb, |Tier { on, name }| match name.as_str() {
        lists::ALLOW | lists::DENY => Err(Usage(format!(
            "'{name}' is no tier: write `limiter {name}` for it"
        ))),
        _ => Ok((on, name)),
    })
    .await
}

async fn execute<On: Args>(
    verb: Verb<On>,
    which: impl FnOnce(On) -> Result<(OnOne, String), Usage>,
) -> anyhow::Result<()> {
    let (edit, given) = match verb {
        Verb::Add { given, lasts } => (Edit::Add(lasts), given),
        Verb::Remove(given) => (Edit::Remove, given),
        Verb::Replace(given) => (Edit::Replace, given),
        Verb::List { on, json } => {
            let (on, name) = which(on)?;
            let list = async |interface: &str| list(interface, &name, json).await;
            return each(&on.interfaces.0, list).await;
        }
    };
    let (on, name) = which(given.on)?;
    let lasts = given.lasting.lasts();
    let mut prefixes: Prefixes = given.prefixes.into_iter().collect();
    if let Some(path) = &given.file {
        prefixes.extend(read(path)?);
    }
    each(&on.interfaces.0, async |interface| {
        let warning = warning(edit, interface, &name, &prefixes).await;
        warning.iter().for_each(|text| note(text));
        let outcome = put_in_force(edit, lasts, interface, &name, &prefixes).await?;
        outcome.tell(interface);
        Ok(())
    })
    .await
}

async fn list(interface: &str, name: &str, json: bool) -> anyhow::Result<()> {
    let attachment = Attachment::open(interface).await?;
    let mut settings = attachment.settings()?;
    let is_shared = settings.shares(name);
    let prefixes = find(&mut settings, name)?;
    let shown: Vec<_> = prefixes.iter().map(show).collect();
    let listed = if is_shared {
        Some(ask::listed(interface, name).await)
    } else {
        None
    };
    if json {
        print_json(&Listing {
            interface: interface.to_owned(),
            list: name.to_owned(),
            prefixes: shown,
            fleet: listed
                .as_ref()
                .and_then(|listed| listed.as_ref().ok())
                .cloned(),
        })?;
    } else {
        let fleet: &[Listed] = match &listed {
            Some(Ok(listed)) => listed,
            _ => &[],
        };
        print(&show::lists::lines(&shown, fleet))?;
    }
    if let Some(Err(error)) = &listed {
        note(&format!(
            "who of the fleet has put what there, and for how long, is not shown: {error}"
        ));
    }
    Ok(())
}

/// The warning if the edit makes things worse for the SSH session of this command.
pub async fn warning(
    edit: Edit,
    interface: &str,
    name: &str,
    prefixes: &Prefixes,
) -> Option<String> {
    let after = |attachment: &Attachment, in_force: &Settings| {
        let own = attachment.own_settings().ok()?;
        if own.shares(name) {
            return by_fleet::after(edit, &own, in_force.clone(), name, prefixes);
        }
        let new = edited(edit, &own, name, prefixes).ok()?;
        Some(attachment.record.with_fleet(new).0)
    };
    warning_of_change(interface, after, |client| allow_first(interface, client)).await
}

/// Edits a list while traffic flows: the fleet's list if the fleet shares it, otherwise the host's.
pub async fn put_in_force(
    edit: Edit,
    lasts: Lasts,
    interface: &str,
    name: &str,
    prefixes: &Prefixes,
) -> anyhow::Result<Outcome> {
    let attachment = Attachment::open(interface).await?;
    if attachment.record.settings.shares(name) {
        if lasts != Lasts::ForGood {
            return Err(Invalid(format!(
                "{name} of {interface} is shared by a fleet, whose other hosts would not try it, and nothing was changed: leave --try and --dry-run out, or `add --for 2m`"
            ))
            .into());
        }
        return by_fleet::put_in_force(edit, attachment, name, prefixes).await;
    }
    if let Edit::Add(Some(_)) = edit {
        find(&mut attachment.own_settings()?, name)?;
        return Err(Invalid(format!(
            "--for is for lists that a fleet shares, whose agent takes prefixes off when their time is over; {name} of {interface} is this host's alone, and nothing was added: add without --for and `remove` later, or share it (fleet = \"NAME\", and {name} = {{ scope = \"fleet\" }} under [lists] of its file)"
        ))
        .into());
    }
    let swapped = set(interface, lasts, |settings| {
        edited(edit, settings, name, prefixes)
    })
    .await?;
    let lasting = told_lasting(interface, &swapped, lasts);
    let (mut old, mut new) = (swapped.old, swapped.new);
    let (before, after) = (find(&mut old, name)?, find(&mut new, name)?);
    let (added, removed) = (
        after.difference(before).count(),
        before.difference(after).count(),
    );
    // Some of the prefixes to be removed are not on the list.
    let missing = match edit {
        Edit::Remove => missing(name, prefixes, before),
        _ => None,
    };
    let changed = match (added, removed) {
        (0, 0) => {
            let why = missing.clone().unwrap_or("it was so already".to_owned());
            format!("unchanged: {why}")
        }
        (added, 0) => format!("{added} added"),
        (0, removed) => format!("{removed} removed"),
        (added, removed) => format!("{added} added, {removed} removed"),
    };
    let on_it = after.len();
    let (mut text, unchanged) = match added + removed {
        0 => (format!("{changed}, {on_it} on {name} now"), true),
        _ => (
            format!("{name}: {changed}, {on_it} on it now"),
            missing.is_some(),
        ),
    };
    if let Some(lasting) = lasting {
        text = format!("{text}; {lasting}");
    }
    let missing = missing.filter(|_| removed > 0);
    let stays = lasts == Lasts::ForGood && added + removed > 0;
    let file = swapped.file.filter(|_| stays);
    new.lists = swapped.overlay.with(new.lists);
    let unknown_to = |file: PathBuf| {
        format!(
            "{} does not know of it: `limiter reload {interface}` would put its list in force again",
            file.display()
        )
    };
    let notes = missing.into_iter().chain(denied_too(name, prefixes, &new));
    Ok(Outcome {
        unchanged,
        text,
        notes: notes.chain(file.map(unknown_to)).collect(),
    })
}

fn edited(
    edit: Edit,
    settings: &Settings,
    name: &str,
    prefixes: &Prefixes,
) -> Result<Settings, Invalid> {
    let mut new = settings.clone();
    let list = find(&mut new, name)?;
    match edit {
        Edit::Add(_) => list.extend(prefixes),
        Edit::Replace => list.clone_from(prefixes),
        Edit::Remove => list.retain(|prefix| !prefixes.contains(prefix)),
    }
    Ok(new)
}

/// The first of several prefixes as text, with the number of others.
pub fn first_of<'p>(mut prefixes: impl Iterator<Item = &'p IpNet>) -> Option<String> {
    let first = show(prefixes.next()?);
    Some(match prefixes.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    })
}

/// The message about prefixes that should be removed, but are not on the list.
pub fn missing(name: &str, given: &Prefixes, list: &Prefixes) -> Option<String> {
    let first = first_of(given.difference(list))?;
    Some(format!("{first} is not on {name}"))
}

/// The message about prefixes on `allow` that `deny` has too, so that they have no effect.
pub fn denied_too(name: &str, given: &Prefixes, new: &Settings) -> Option<String> {
    if name != lists::ALLOW {
        return None;
    }
    let on_both = given.intersection(&new.lists.deny);
    let on_both = first_of(on_both.filter(|prefix| new.lists.allow.contains(prefix)))?;
    Some(format!(
        "{on_both} is on deny too, which goes before allow where both have the same prefix"
    ))
}

fn read(path: &Path) -> anyhow::Result<Prefixes> {
    let text = crate::config::read_text(path).map_err(|error| {
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
