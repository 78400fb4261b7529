//! Changes the settings in force: a new program with new constants over the same maps is swapped into the link in one
//! step. Each packet sees the old configuration or the new one, and no bucket is lost.

use std::collections::BTreeMap;

use limiter_config::{Invalid, Overlay, Prefixes, Settings, reader::Keyed};

pub use crate::ops::change::{Lasts, Swapped, Wanted};
use crate::{
    Attachment, Result,
    ops::{attach::check_pacing, change::Change, trial},
    state::Record,
};

/// Changes the settings of the attachment of `name`.
pub async fn set(
    name: &str,
    lasts: Lasts,
    change: impl Fn(&Settings) -> Result<Settings, Invalid>,
) -> Result<Swapped> {
    swap(name, lasts, |wanted| {
        Ok(Wanted {
            settings: change(&wanted.settings)?,
            ..wanted
        })
    })
    .await
}

/// Replaces the running program by one with another configuration. `change` is called again if another command has
/// changed something meanwhile. It is also called for the fallback of a running trial, because only a change with
/// [`Lasts::Trial`] is undone.
pub async fn swap(
    name: &str,
    lasts: Lasts,
    change: impl Fn(Wanted) -> Result<Wanted>,
) -> Result<Swapped> {
    let wanted = |record: &Record, own: &Settings| {
        let wanted = change(Wanted::own(record, own))?;
        fixed_at_attach(name, own, &wanted.settings)?;
        Ok((record.clone(), wanted))
    };
    let prepare = |attachment| Change::prepare(attachment, lasts, &wanted);
    let attachment = match lasts {
        Lasts::DryRun => Attachment::open(name).await?,
        _ => trial::open_settled(name).await?,
    };
    let (_, checked) = wanted(&attachment.record, &attachment.own_settings()?)?;
    let delays = |settings: &Settings| {
        settings
            .limits
            .iter()
            .any(|limit| limit.max_delay.is_some())
    };
    // A qdisc that was changed since must not stand in the way of other changes.
    if !delays(&attachment.record.settings) {
        check_pacing(&attachment.interface, &checked.settings).await?;
    }
    if lasts == Lasts::DryRun {
        return prepare(attachment).map(Swapped::from);
    }
    // Long lists take seconds to load: other commands must not wait for that.
    put_in_force(name, attachment, prepare).await
}

/// Loads the program with the same settings again, so that it shows packets that pass if a process wants them, and
/// otherwise does not.
pub(super) async fn same(name: &str) -> Result<()> {
    let wanted = |record: &Record, own: &Settings| Ok((record.clone(), Wanted::own(record, own)));
    let prepare = |attachment| Change::prepare(attachment, Lasts::ForGood, &wanted);
    let attachment = trial::open_settled(name).await?;
    put_in_force(name, attachment, prepare).await.map(drop)
}

/// Puts a change of the attachment of `name` in force. It is prepared again if another command has changed something
/// meanwhile.
pub(super) async fn put_in_force(
    name: &str,
    attachment: Attachment,
    prepare: impl Fn(Attachment) -> Result<Change>,
) -> Result<Swapped> {
    attachment.dir.check_own()?;
    // An error here may be due to another command that removes pins at that moment. With the lock it is certain.
    if let Ok(change) = prepare(attachment) {
        let lock = change.lock()?;
        if lock.is_some() && change.is_up_to_date()? {
            return change.put_in_force();
        }
    }
    // Another command was faster. With the lock, no command can be.
    let (attachment, _lock) = Attachment::open_locked(name).await?;
    prepare(trial::settled(attachment)?)?.put_in_force()
}

/// Replaces the fleet's prefixes on the lists named in `of_fleet`, if the configuration of `name` shares those lists
/// with the fleet. Other lists stay as they are. Prefixes of the host's own configuration stay, even if the fleet
/// removes the same prefix. If nothing changes, nothing is swapped and `None` is returned.
pub async fn overlay(name: &str, of_fleet: BTreeMap<String, Prefixes>) -> Result<Option<Swapped>> {
    let attachment = trial::open_settled(name).await?;
    let overlay = |record: &Record, own: &Settings| {
        let mut all = record.overlay.of_fleet();
        all.extend(of_fleet.clone());
        Overlay::new(own, &all)
    };
    let own = attachment.own_settings()?;
    if overlay(&attachment.record, &own) == attachment.record.overlay {
        return Ok(None);
    }
    let wanted = |record: &Record, own: &Settings| {
        let mut record = record.clone();
        record.overlay = overlay(&record, own);
        let wanted = Wanted::own(&record, own);
        Ok((record, wanted))
    };
    let prepare = |attachment| Change::prepare(attachment, Lasts::ForGood, &wanted);
    put_in_force(name, attachment, prepare).await.map(Some)
}

fn fixed_at_attach(name: &str, old: &Settings, new: &Settings) -> Result<(), Invalid> {
    let [before, after] = [old, new].map(|settings| settings.values(&Settings::default()));
    let mut both = before.into_iter().zip(after);
    match both.find(|(old, new)| old.known.fixed && old.words != new.words) {
        Some((old, new)) => Err(fixed(name, old.known.key, &old.words, &new.words)),
        None => Ok(()),
    }
}

/// Error for a setting that cannot be changed.
pub(crate) fn fixed(name: &str, key: &str, old: &str, new: &str) -> Invalid {
    Invalid(format!(
        "{key} is fixed at attach ({old}, {new} wanted): to change it, `limiter detach {name}` and attach again, with all buckets full"
    ))
}
