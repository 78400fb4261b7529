//! Changing what is in force: a new program with new constants over the same maps, swapped into the
//! link in one step. Each packet sees the old configuration or the new one, and no bucket is lost.

use std::collections::BTreeMap;

pub use crate::kernel::ops::change::{Lasts, Swapped, Wanted};
use crate::{
    config::{Invalid, Settings, lists::Prefixes, origin::By, overlay::Overlay},
    kernel::{
        error::{Error, Result},
        ops::{change::Change, trial},
        program::object::Variant,
        state::{attachment::Attachment, record::Record},
        sys::requirements,
    },
};

/// Seconds for which an agent tries to put lists in force before it says that another command is in the way.
const BUSY: u64 = 8;

/// Changes the settings of the attachment of `name`.
pub async fn set(
    name: &str,
    lasts: Lasts,
    change: impl Fn(&Settings) -> Result<Settings, Invalid>,
) -> Result<Swapped> {
    swap(name, Variant::Plain, lasts, |wanted| {
        Ok(Wanted {
            settings: change(&wanted.settings)?,
            ..wanted
        })
    })
    .await
}

/// Puts another build or configuration of the program in the place of the one that runs. `change` is asked again where
/// another command has changed something meanwhile, and for what a trial that runs falls back to: only with
/// [`Lasts::Trial`] a change is undone.
pub async fn swap(
    name: &str,
    variant: Variant,
    lasts: Lasts,
    change: impl Fn(Wanted) -> Result<Wanted>,
) -> Result<Swapped> {
    requirements::privileges()?;
    let wanted = |record: &Record, own: &Settings| {
        let wanted = change(Wanted {
            settings: own.clone(),
            file: record.file.clone(),
            by: By::Command,
        })?;
        fixed_at_attach(name, own, &wanted.settings)?;
        Ok((record.clone(), wanted))
    };
    let prepare = |attachment| Change::prepare(attachment, variant, lasts, &wanted);
    if lasts == Lasts::DryRun {
        return prepare(Attachment::open(name).await?).map(Swapped::from);
    }
    // Long lists take seconds to load: nobody else has to wait for that.
    let attachment = trial::open_settled(name).await?;
    attachment.dir.check_own()?;
    // An error may come of what another command removes at that moment. With the lock it is certain.
    if let Ok(change) = prepare(attachment) {
        let _lock = change.lock()?;
        if change.is_up_to_date()? {
            return change.put_in_force();
        }
    }
    // Another command was faster: now none can be.
    let (attachment, _lock) = Attachment::open_locked(name).await?;
    prepare(trial::settled(attachment)?)?.put_in_force()
}

/// Makes `of_fleet` what the fleet has put on the lists that are named in it, as far as the configuration of the
/// attachment of `name` has the fleet share them; other lists stay as they are. What the configuration says itself
/// stays on them, and stays when the fleet takes the same prefix off. Nothing is swapped, and nothing returned,
/// where nothing changes. Other commands are not waited for: whoever asks has other things to do meanwhile.
///
/// # Errors
/// [`Error::Busy`] where another command is at work, or has changed something meanwhile.
pub async fn overlay(name: &str, of_fleet: BTreeMap<String, Prefixes>) -> Result<Option<Swapped>> {
    requirements::privileges()?;
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
    attachment.dir.check_own()?;
    let wanted = |record: &Record, own: &Settings| {
        let mut record = record.clone();
        record.overlay = overlay(&record, own);
        let wanted = Wanted {
            settings: own.clone(),
            file: record.file.clone(),
            by: By::Fleet,
        };
        Ok((record, wanted))
    };
    let change = Change::prepare(attachment, Variant::Plain, Lasts::ForGood, &wanted)?;
    match change.try_lock()? {
        Some(_lock) if change.is_up_to_date()? => change.put_in_force().map(Some),
        _ => Err(Error::Busy(BUSY)),
    }
}

/// What a change cannot reach.
fn fixed_at_attach(name: &str, old: &Settings, new: &Settings) -> Result<(), Invalid> {
    let sources = [old, new].map(|settings| settings.max_sources.to_string());
    let mode = [old, new].map(|settings| settings.mode.name().to_owned());
    for (what, [old, new]) in [("max_sources", sources), ("mode", mode)] {
        if old != new {
            return Err(Invalid(format!(
                "{what} is fixed at attach ({old}, {new} wanted): `limiter detach {name}` and attach again for that, with all buckets full"
            )));
        }
    }
    Ok(())
}
