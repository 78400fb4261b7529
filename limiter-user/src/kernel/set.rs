//! Changing what is in force: a new program with new constants over the same maps, swapped into the
//! link in one step. Each packet sees the old configuration or the new one, and no bucket is lost.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use super::{
    attach::pin_generation,
    attachment::Attachment,
    bpffs, clock,
    error::{Error, Result},
    object::{self, Entry, ListMaps, Maps, Program, Variant},
    pins,
    record::Record,
    sys,
};
use crate::config::{Invalid, Settings};

/// A change that is in force.
#[derive(Debug)]
pub struct Swapped {
    /// The settings before.
    pub old: Settings,
    /// The settings now.
    pub new: Settings,
    /// The configuration file that they came from, but for later changes.
    pub file: Option<PathBuf>,
    /// The program that runs now.
    pub program: Program,
}

/// What an attachment is to be like.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// All settings.
    pub settings: Settings,
    /// The file that they come from.
    pub file: Option<PathBuf>,
}

/// Changes the settings of the attachment of `name`.
pub async fn set(
    name: &str,
    change: impl FnOnce(&Settings) -> Result<Settings, Invalid>,
) -> Result<Swapped> {
    swap(name, Variant::Plain, |wanted| {
        Ok(Wanted {
            settings: change(&wanted.settings)?,
            ..wanted
        })
    })
    .await
}

/// Puts another build or configuration of the program in the place of the one that runs.
pub async fn swap(
    name: &str,
    variant: Variant,
    change: impl FnOnce(Wanted) -> Result<Wanted>,
) -> Result<Swapped> {
    super::requirements::privileges()?;
    let lock = bpffs::look()?.then(bpffs::lock).transpose()?;
    let mut attachment = Attachment::open(name).await?;
    clear_leftovers(&attachment);
    let old = attachment.settings()?;
    let wanted = change(Wanted {
        settings: old.clone(),
        file: attachment.record.file.clone(),
    })?;
    fixed_at_attach(name, &old, &wanted.settings)?;
    let (mut record, moves) = attachment
        .record
        .changed(wanted.settings.clone(), clock::now()?)?;
    record.logging = variant == Variant::Log;
    record.file = wanted.file;
    let config = record.config()?;
    let same_lists = old.lists == wanted.settings.lists && attachment.record.tiers == record.tiers;
    let prefixes = record.settings.lists.compile(&record.tiers);
    let lists = attachment.generation_folder();
    let program = object::load(
        variant,
        &config,
        Maps::Pinned(&attachment.folder),
        if same_lists {
            ListMaps::Pinned(&lists)
        } else {
            ListMaps::New(&prefixes)
        },
        Entry {
            frags: record.frags,
            chained: record.chained,
        },
    )?;
    attachment.tables.make_way(&moves, &record.limits)?;
    put_in_force(&attachment, &program, &record)?;
    attachment.tables.tidy_up(&moves);
    drop(lock);
    Ok(Swapped {
        old,
        new: wanted.settings,
        file: record.file,
        program,
    })
}

/// What a change cannot reach.
fn fixed_at_attach(name: &str, old: &Settings, new: &Settings) -> Result<(), Invalid> {
    let fixed = |what: &str, old: String, new: String| {
        if old == new {
            return Ok(());
        }
        Err(Invalid(format!(
            "{what} is fixed at attach ({old}, {new} wanted): `limiter detach {name}` and attach again for that, with all buckets full"
        )))
    };
    fixed(
        "max_sources",
        old.max_sources.to_string(),
        new.max_sources.to_string(),
    )?;
    fixed(
        "mode",
        old.mode.name().to_owned(),
        new.mode.name().to_owned(),
    )
}

/// Pins the next generation, swaps it into the link, and removes the one that is obsolete: the old
/// one, or the new one if the swap failed.
fn put_in_force(attachment: &Attachment, program: &Program, record: &Record) -> Result<()> {
    let next = attachment.generation + 1;
    let generation = pins::generation(&attachment.folder, next);
    pins::create(&generation)?;
    let swapped = pin_generation(program, record, &generation).and_then(|()| {
        attachment
            .link
            .replace(running(attachment)?.as_fd(), program.fd()?)
    });
    let obsolete = if swapped.is_ok() {
        attachment.generation
    } else {
        next
    };
    // What stays is cleared the next time, and in nobody's way till then.
    let _ = pins::remove(&pins::generation(&attachment.folder, obsolete));
    swapped
}

/// Removes the generations that a killed command left.
fn clear_leftovers(attachment: &Attachment) {
    for number in pins::generations(&attachment.folder) {
        if number != attachment.generation {
            // What stays is cleared the next time.
            let _ = pins::remove(&pins::generation(&attachment.folder, number));
        }
    }
}

/// The program that runs. Not by its id, which would want `CAP_SYS_ADMIN`.
fn running(attachment: &Attachment) -> Result<OwnedFd> {
    let path = pins::generation(&attachment.folder, attachment.generation).join("program");
    sys::open_pin(&path).map_err(|error| Error::path("opening", path, error))
}
