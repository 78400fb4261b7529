//! Changing what is in force: a new program with new constants over the same maps, swapped into the
//! link in one step. Each packet sees the old configuration or the new one, and no bucket is lost.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use super::{
    attach::pin_generation,
    attachment::Attachment,
    before::{TakeOver, TakenOver},
    bpffs, clock,
    error::{Error, Result},
    object::{self, Entry, ListMaps, Maps, Program, Variant},
    pins,
    record::Record,
    sys,
};
use crate::config::{Invalid, Settings, lists::Prefixes, spread::Spread};

/// Seconds for which an agent tries to put lists in force before it says that another command is in the way.
const BUSY: u64 = 8;

/// A change that is in force.
#[derive(Debug)]
pub struct Swapped {
    /// This host's own settings before.
    pub old: Settings,
    /// This host's own settings now.
    pub new: Settings,
    /// What the fleet has put on the lists beside them.
    pub spread: Spread,
    /// The configuration file that they came from, but for later changes.
    pub file: Option<PathBuf>,
    /// The program that runs now.
    pub program: Program,
    /// What an earlier version had attached, if that was taken over.
    pub taken_over: Option<TakenOver>,
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
    let attachment = Attachment::open(name).await?;
    clear_leftovers(&attachment);
    let old = attachment.own_settings()?;
    let wanted = change(Wanted {
        settings: old.clone(),
        file: attachment.record.file.clone(),
    })?;
    fixed_at_attach(name, &old, &wanted.settings)?;
    let swapped = swap_open(attachment, old, wanted, variant);
    drop(lock);
    swapped
}

/// Makes `of_fleet` what the fleet has put on the lists that are named in it, as far as the configuration of the
/// attachment of `name` has the fleet share them; other lists stay as they are. What the configuration says itself
/// stays on them, and stays when the fleet takes the same prefix off. Nothing is swapped, and nothing returned,
/// where nothing changes. Other commands are not waited for: whoever asks has other things to do meanwhile.
///
/// # Errors
/// [`Error::Busy`] where another command is at work.
pub async fn spread(name: &str, of_fleet: BTreeMap<String, Prefixes>) -> Result<Option<Swapped>> {
    super::requirements::privileges()?;
    let _lock = match bpffs::look()? {
        true => Some(bpffs::try_lock()?.ok_or(Error::Busy(BUSY))?),
        false => None,
    };
    let mut attachment = Attachment::open(name).await?;
    let own = attachment.own_settings()?;
    let mut all = attachment.record.spread.of_fleet();
    all.extend(of_fleet);
    let spread = Spread::new(&own, &all);
    if spread == attachment.record.spread {
        return Ok(None);
    }
    clear_leftovers(&attachment);
    attachment.record.spread = spread;
    let wanted = Wanted {
        settings: own.clone(),
        file: attachment.record.file.clone(),
    };
    swap_open(attachment, own, wanted, Variant::Plain).map(Some)
}

/// The swap itself, with everything locked and looked at; `old` are the host's own settings.
fn swap_open(
    mut attachment: Attachment,
    old: Settings,
    wanted: Wanted,
    variant: Variant,
) -> Result<Swapped> {
    let lists_before = attachment.settings()?.lists;
    let (mut record, moves) = attachment
        .record
        .changed(wanted.settings.clone(), clock::now()?)?;
    record.logging = variant == Variant::Log;
    record.file = wanted.file;
    let config = record.config()?;
    let same_lists =
        lists_before == record.settings.lists && attachment.record.tiers == record.tiers;
    let prefixes = record.settings.lists.compile(&record.tiers);
    let lists = attachment.generation_folder();
    let take_over = TakeOver::begin(&attachment)?;
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
    let taken_over = take_over
        .map(|earlier| earlier.finish(&mut attachment))
        .transpose()?;
    put_in_force(&attachment, &program, &record)?;
    attachment.tables.tidy_up(&moves);
    Ok(Swapped {
        old,
        new: wanted.settings,
        spread: record.spread,
        file: record.file,
        program,
        taken_over,
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
