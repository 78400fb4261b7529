//! Edits of the lists and bans that a fleet shares: the agent passes them to the store, and so to all hosts.

use super::edit::{Edit, Kind, first_of};
use limiter_config::{
    Invalid, Prefixes, Settings, invalid,
    lists::{BANS, prefix},
};
use limiter_fleet::question;
use limiter_kernel::Attachment;

use crate::{
    ask,
    cli::shared::{Extent, note, outcome, record_until},
};

impl Edit {
    /// The settings in force on this host after the edit. `in_force` are the present ones, and `own` this host's own.
    pub fn after_by_fleet(&self, mut own: Settings, in_force: &Settings) -> Option<Settings> {
        let kept = match self.kind {
            Kind::Add => &Prefixes::new(),
            Kind::Remove => own.lists.named_mut(&self.name)?,
            Kind::Replace => return None,
        };
        let edit = Self {
            kind: self.kind,
            name: self.name.clone(),
            prefixes: self.prefixes.difference(kept).collect(),
        };
        edit.after(in_force).ok()
    }

    /// Edits the list on all hosts, and prints the result. On return, the edit is in force on this host.
    pub async fn by_fleet(&self, attachment: Attachment) -> anyhow::Result<()> {
        let (kind, name, prefixes) = (self.kind, &self.name, &self.prefixes);
        let interface = attachment.interface.name.clone();
        let fleet = attachment.record.settings.fleet.clone();
        let fleet = fleet.unwrap_or_default();
        let mut own = attachment.own_settings()?;
        let own = own.lists.named_mut(name).cloned().unwrap_or_default();
        // Other commands that change the attachment must not wait for this one.
        drop(attachment);
        let given = prefixes.iter().collect();
        let mut not_there = None;
        let (change, done) = match kind {
            Kind::Replace => anyhow::bail!(invalid!(
                "{name} is shared by fleet '{fleet}', and replacing it could remove prefixes that other hosts add; nothing was changed: use `remove` and `add`"
            )),
            Kind::Add => {
                let edit = question::Edit::Add {
                    prefixes: given,
                    lasts: None,
                    reason: String::new(),
                };
                (edit, "added")
            }
            Kind::Remove => {
                let listed = ask::listed(&interface, name).await.map_err(unchanged)?;
                let of_fleet = listed.iter().filter_map(|entry| prefix(&entry.prefix).ok());
                let of_fleet = of_fleet.collect();
                self.may_remove(&own, &of_fleet)?;
                not_there = self.missing(&of_fleet);
                (question::Edit::Remove(given), "removed")
            }
        };
        let changed = ask::edit(&interface, name, change).await;
        let changed = changed.map_err(unchanged)?;
        let text = match changed {
            0 => {
                let why = not_there.as_deref().unwrap_or("already in force");
                format!("unchanged: {why}, on all hosts of fleet '{fleet}'")
            }
            _ => format!("{name}: {changed} {done}, on all hosts of fleet '{fleet}'"),
        };
        let attachment = Attachment::open(&interface).await?;
        let in_force = attachment.settings()?;
        let stays = || {
            let stay = first_of(prefixes.intersection(&own))?;
            Some(format!(
                "{stay} stays on {name} here, because this host's own configuration has it too"
            ))
        };
        let extent = match (changed, &not_there) {
            (0, _) => Extent::Nothing,
            (_, Some(_)) => Extent::Part,
            (_, None) => Extent::All,
        };
        let notes = match kind {
            Kind::Remove => stays(),
            _ => self.denied_too(&in_force),
        };
        if changed > 0 {
            let trial = attachment.try_until();
            record_until(&interface, "change", std::slice::from_ref(&text), trial);
        }
        outcome(&interface, extent, &text);
        let notes = not_there.filter(|_| changed > 0).into_iter().chain(notes);
        notes.for_each(|text| note(&text));
        Ok(())
    }

    /// Fails if one of the prefixes is only this host's own. Then nothing is removed.
    fn may_remove(&self, own: &Prefixes, of_fleet: &Prefixes) -> Result<(), Invalid> {
        let (name, own) = (&self.name, self.prefixes.intersection(own));
        match first_of(own.filter(|own| !of_fleet.contains(own))) {
            None => Ok(()),
            Some(own) => Err(invalid!(
                "{own} is on {name} by this host's own configuration, not by the fleet; nothing was removed: remove it from the configuration file, and run `limiter reload`"
            )),
        }
    }
}

/// Changes the bans of all hosts of a fleet. On return, the change is in force on this host. Returns the number of bans.
pub async fn change_bans(interface: &str, edit: question::Edit) -> anyhow::Result<u64> {
    match ask::edit(interface, BANS, edit).await {
        Err(error @ ask::Error::NoAgent) => Err(anyhow::anyhow!(
            "the bans of {interface} are those of its fleet, and {error}, or add --origin NAME for this host alone"
        )),
        changed => Ok(changed?),
    }
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
