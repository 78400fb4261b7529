//! `limiter allow`, `limiter deny` and `limiter tier`.

use std::{borrow::Borrow, path::PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use ipnet::IpNet;
use limiter_config::{Invalid, Prefixes, Settings, invalid, lists, lists::show};
use limiter_kernel::{
    Attachment,
    ops::set::{Lasts, set},
};

use crate::{
    ask,
    cli::shared::{
        ForPrograms, Lasting, OnOne, Usage, allow_first, document, each, note, note_stale_file,
        prefix, report_changes, warn_of_change,
    },
    observe::Listing,
    show,
};

/// Actions on a list. `On` selects the list and the interface.
#[derive(Debug, Subcommand)]
pub enum Verb<On: Args> {
    /// Add prefixes to the list; none of them if one is invalid
    Add(Given<On>),
    /// Remove prefixes from the list; a note names missing ones
    #[command(aliases = ["delete", "del", "rm"])]
    Remove(Given<On>),
    /// Replace the whole list by these prefixes; `clear` empties it, and so does a file without prefixes
    Replace(Given<On>),
    /// Remove all prefixes from the list
    #[command(visible_alias = "flush")]
    Clear {
        #[command(flatten)]
        on: On,
        #[command(flatten)]
        lasting: Lasting,
        #[command(flatten)]
        programs: ForPrograms,
    },
    /// Print the list
    #[command(aliases = ["show", "ls", "print"])]
    List {
        #[command(flatten)]
        on: On,
        #[command(flatten)]
        programs: ForPrograms,
    },
}

// A list that has a name.
#[derive(Debug, Args)]
pub struct Tier {
    #[command(flatten)]
    on: OnOne,
    /// Name of the list
    #[arg(value_name = "NAME", value_parser = list)]
    name: String,
}

/// Reads the name of a list. Without an interface in front of it, a prefix would be read as the name.
fn list(text: &str) -> Result<String, Invalid> {
    match prefix(text) {
        Ok(_) => Err(invalid!(
            "'{text}' is a prefix where the name of a list belongs: write the list in front of it"
        )),
        Err(_) => Ok(text.to_owned()),
    }
}

// Prefixes on the command line, or in a file.
#[derive(Debug, Args)]
pub struct Given<On: Args> {
    #[command(flatten)]
    on: On,
    /// Prefixes or addresses, as in 192.0.2.0/24 or 2001:db8::7
    #[arg(value_name = "CIDR", value_parser = prefix, required_unless_present = "file")]
    prefixes: Vec<IpNet>,
    /// File with a list: one prefix per line, with # before comments, or another format that feeds read
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    lasting: Lasting,
    #[command(flatten)]
    programs: ForPrograms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Add,
    Remove,
    Replace,
}

/// An edit of the list with this name.
pub struct Edit {
    pub kind: Kind,
    pub name: String,
    pub prefixes: Prefixes,
}

/// Runs a verb on one of the two lists that every configuration has.
pub async fn run(name: &str, verb: Verb<OnOne>) -> anyhow::Result<()> {
    execute(verb, |targets| Ok((targets, name.to_owned()))).await
}

/// Runs a verb on a tier, a list with a user-defined name.
pub async fn run_tier(verb: Verb<Tier>) -> anyhow::Result<()> {
    execute(verb, |Tier { on: targets, name }| match name.as_str() {
        lists::ALLOW | lists::DENY => Err(Usage(format!(
            "'{name}' is not a tier: use `limiter {name}`"
        ))),
        _ => Ok((targets, name)),
    })
    .await
}

async fn execute<On: Args>(
    verb: Verb<On>,
    which: impl FnOnce(On) -> Result<(OnOne, String), Usage>,
) -> anyhow::Result<()> {
    let (kind, given) = match verb {
        Verb::Add(given) => (Kind::Add, given),
        Verb::Remove(given) => (Kind::Remove, given),
        Verb::Replace(given) => (Kind::Replace, given),
        Verb::Clear {
            on: targets,
            lasting,
            programs,
        } => {
            let nothing = Given {
                on: targets,
                prefixes: Vec::new(),
                file: None,
                lasting,
                programs,
            };
            (Kind::Replace, nothing)
        }
        Verb::List {
            on: targets,
            programs,
        } => {
            programs.answer();
            let (targets, name) = which(targets)?;
            let show = async |interface: &str| print(interface, &name, programs.json).await;
            return each(&targets.interfaces, show).await;
        }
    };
    given.programs.changes();
    let (targets, name) = which(given.on)?;
    let lasts = given.lasting.lasts();
    let mut prefixes: Prefixes = given.prefixes.into_iter().collect();
    if let Some(path) = &given.file {
        let in_file = lists::named(path);
        prefixes.join(in_file.map_err(|mistakes| {
            let mistakes = mistakes.join("; ");
            anyhow::anyhow!(
                "{} is no list, and nothing was changed: {mistakes}",
                path.display()
            )
        })?);
    }
    let edit = Edit {
        kind,
        name,
        prefixes,
    };
    let put_in_force = async |interface: &str| {
        edit.warn(interface).await;
        edit.put_in_force(interface, lasts).await
    };
    each(&targets.interfaces, put_in_force).await
}

async fn print(interface: &str, name: &str, json: bool) -> anyhow::Result<()> {
    let mut settings = Attachment::open(interface).await?.settings()?;
    let is_shared = settings.shares(name);
    let prefixes = find(&mut settings, name)?
        .iter()
        .map(|prefix| show(&prefix))
        .collect();
    let (fleet, error) = match is_shared {
        false => (None, None),
        true => match ask::listed(interface, name).await {
            Ok(listed) => (Some(listed), None),
            Err(error) => (None, Some(error)),
        },
    };
    let listing = Listing {
        interface: interface.to_owned(),
        list: name.to_owned(),
        prefixes,
        fleet,
    };
    if let Some(error) = error {
        note(&format!(
            "the fleet's entries are listed without host and time: {error}"
        ));
    }
    let fleet = listing.fleet.as_deref().unwrap_or_default();
    let text = || show::list::lines(&listing.prefixes, fleet);
    document(json, &listing, text)
}

impl Edit {
    /// Warns if the edit makes things worse for the SSH session of this command.
    async fn warn(&self, interface: &str) {
        let after = |attachment: &Attachment, in_force: &Settings| {
            let own = attachment.own_settings().ok()?;
            if own.shares(&self.name) {
                return self.after_by_fleet(own, in_force);
            }
            Some(attachment.record.with_fleet(self.after(&own).ok()?).0)
        };
        warn_of_change(interface, after, |client| allow_first(interface, client)).await;
    }

    /// Edits a list while traffic flows: the fleet's list if the fleet shares it, otherwise the host's.
    async fn put_in_force(&self, interface: &str, lasts: Lasts) -> anyhow::Result<()> {
        let name = &self.name;
        let attachment = Attachment::open(interface).await?;
        if attachment.record.settings.shares(name) {
            if lasts != Lasts::ForGood {
                bail!(invalid!(
                    "{name} of {interface} is shared by a fleet, where --try and --dry-run are not possible; nothing was changed: leave them out"
                ));
            }
            return self.by_fleet(attachment).await;
        }
        let mut changed = set(interface, lasts, |settings| self.after(settings)).await?;
        // Some of the prefixes to be removed are not on the list.
        let missing = match self.kind {
            Kind::Remove => self.missing(find(&mut changed.old, name)?),
            _ => None,
        };
        report_changes(interface, &changed, lasts, missing.is_some());
        note_stale_file(interface, &changed, lasts);
        let new = changed.record.overlay.with(changed.new);
        let notes = missing.into_iter().chain(self.denied_too(&new));
        notes.for_each(|text| note(&text));
        Ok(())
    }

    pub fn after(&self, settings: &Settings) -> Result<Settings, Invalid> {
        let (mut new, prefixes) = (settings.clone(), &self.prefixes);
        let list = find(&mut new, &self.name)?;
        match self.kind {
            Kind::Add => list.extend(prefixes),
            Kind::Replace => list.clone_from(prefixes),
            Kind::Remove => list.retain(|prefix| !prefixes.contains(prefix)),
        }
        Ok(new)
    }

    /// The message about prefixes that should be removed, but are not on the list. Names the longest prefix on the list
    /// that contains the first of them.
    pub fn missing(&self, list: &Prefixes) -> Option<String> {
        let name = &self.name;
        let absent = self.prefixes.difference(list);
        let around = absent.clone().next().and_then(|absent| {
            let around = list.iter().filter(|prefix| prefix.contains(&absent));
            around.max_by_key(IpNet::prefix_len)
        });
        let around = around.map(|prefix| format!("; {} on {name} contains it", show(&prefix)));
        let (first, around) = (first_of(absent)?, around.unwrap_or_default());
        Some(format!("{first} is not on {name}{around}"))
    }

    /// The message about prefixes on `allow` that `deny` has too, so that they have no effect.
    pub fn denied_too(&self, new: &Settings) -> Option<String> {
        if self.name != lists::ALLOW {
            return None;
        }
        let on_both = self.prefixes.intersection(&new.lists.deny);
        let on_both = first_of(on_both.filter(|prefix| new.lists.allow.contains(prefix)))?;
        Some(format!(
            "{on_both} is on deny too, and deny takes precedence if both lists have the same prefix"
        ))
    }
}

/// The first of several prefixes as text, with the number of others.
pub fn first_of(mut prefixes: impl Iterator<Item = impl Borrow<IpNet>>) -> Option<String> {
    let first = show(prefixes.next()?.borrow());
    Some(match prefixes.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    })
}

fn find<'a>(settings: &'a mut Settings, name: &str) -> Result<&'a mut Prefixes, Invalid> {
    let tiers: Vec<_> = settings.lists.tiers.keys().cloned().collect();
    settings.lists.named_mut(name).ok_or_else(|| {
        let known = match tiers.join(", ") {
            tiers if tiers.is_empty() => "no list is defined".to_owned(),
            tiers => format!("there is {tiers}"),
        };
        invalid!("there is no list '{name}' ({known}): add it under [lists] of the configuration file, and reload")
    })
}

#[cfg(test)]
mod tests {
    use super::{Edit, Kind, Prefixes};

    #[test]
    fn prefix_to_remove_is_reported_with_the_longest_prefix_around_it() {
        let prefixes = |texts: &[&str]| -> Prefixes {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let list = prefixes(&["192.0.0.0/16", "192.0.2.0/24", "2001:db8::/32"]);
        for (given, message) in [
            (&["192.0.2.0/24"][..], None),
            (&["203.0.113.7/32"], Some("203.0.113.7 is not on deny")),
            (
                &["192.0.2.7/32"],
                Some("192.0.2.7 is not on deny; 192.0.2.0/24 on deny contains it"),
            ),
        ] {
            let edit = Edit {
                kind: Kind::Remove,
                name: "deny".to_owned(),
                prefixes: prefixes(given),
            };
            let told = edit.missing(&list);
            assert_eq!(told.as_deref(), message, "{given:?}");
        }
    }
}
