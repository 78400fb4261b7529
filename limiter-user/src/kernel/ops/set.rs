//! Changing what is in force: a new program with new constants over the same maps, swapped into the
//! link in one step. Each packet sees the old configuration or the new one, and no bucket is lost.

use crate::kernel::state::generation;
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
};

use ipnet::IpNet;
use limiter_common::layout::Listed;

use crate::{
    config::{
        Invalid, Settings,
        lists::Prefixes,
        origin::{By, Origins},
        spread::Spread,
    },
    kernel::{
        error::{Error, Result},
        program::{
            lists, object,
            object::{Entry, ListMaps, Maps, Program, Variant},
        },
        state::{
            attachment::Attachment,
            pins,
            record::{Moves, Record},
            unpin,
        },
        sys::{clock, lock},
    },
};

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
    /// The longest frame, in bytes: the burst of a bit rate depends on it.
    pub frame_max: u64,
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
    /// Who puts the prefixes on its lists.
    pub by: By,
}

impl Wanted {
    /// Settings of a command.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            file: None,
            by: By::Command,
        }
    }
}

/// Changes the settings of the attachment of `name`.
pub async fn set(
    name: &str,
    change: impl Fn(&Settings) -> Result<Settings, Invalid>,
) -> Result<Swapped> {
    swap(name, Variant::Plain, |wanted| {
        Ok(Wanted {
            settings: change(&wanted.settings)?,
            ..wanted
        })
    })
    .await
}

/// Puts another build or configuration of the program in the place of the one that runs. `change` is asked again where
/// another command has changed something meanwhile.
pub async fn swap(
    name: &str,
    variant: Variant,
    change: impl Fn(Wanted) -> Result<Wanted>,
) -> Result<Swapped> {
    crate::kernel::sys::requirements::privileges()?;
    let prepare = |attachment: Attachment| {
        let old = attachment.own_settings()?;
        let wanted = change(Wanted {
            settings: old.clone(),
            file: attachment.record.file.clone(),
            by: By::Command,
        })?;
        fixed_at_attach(name, &old, &wanted.settings)?;
        Change::prepare(attachment, old, wanted, variant)
    };
    // Long lists take seconds to load: nobody else has to wait for that.
    let attachment = Attachment::open(name).await?;
    attachment.dir.check_own()?;
    // An error may come of what another command removes at that moment. With the lock it is certain.
    if let Ok(change) = prepare(attachment) {
        let _lock = lock::lock(&change.attachment.dir)?;
        if change.attachment.is_in_force()? {
            return change.put_in_force();
        }
    }
    // Another command was faster: now none can be.
    let (attachment, _lock) = Attachment::open_locked(name).await?;
    prepare(attachment)?.put_in_force()
}

/// Makes `of_fleet` what the fleet has put on the lists that are named in it, as far as the configuration of the
/// attachment of `name` has the fleet share them; other lists stay as they are. What the configuration says itself
/// stays on them, and stays when the fleet takes the same prefix off. Nothing is swapped, and nothing returned,
/// where nothing changes. Other commands are not waited for: whoever asks has other things to do meanwhile.
///
/// # Errors
/// [`Error::Busy`] where another command is at work, or has changed something meanwhile.
pub async fn spread(name: &str, of_fleet: BTreeMap<String, Prefixes>) -> Result<Option<Swapped>> {
    crate::kernel::sys::requirements::privileges()?;
    let mut attachment = Attachment::open(name).await?;
    let own = attachment.own_settings()?;
    let mut all = attachment.record.spread.of_fleet();
    all.extend(of_fleet);
    let spread = Spread::new(&own, &all);
    if spread == attachment.record.spread {
        return Ok(None);
    }
    attachment.dir.check_own()?;
    attachment.record.spread = spread;
    let wanted = Wanted {
        settings: own.clone(),
        file: attachment.record.file.clone(),
        by: By::Fleet,
    };
    let busy = || Error::Busy(BUSY);
    let change = Change::prepare(attachment, own, wanted, Variant::Plain)?;
    let _lock = lock::try_lock(&change.attachment.dir)?.ok_or_else(busy)?;
    if !change.attachment.is_in_force()? {
        return Err(busy());
    }
    change.put_in_force().map(Some)
}

/// A change that is loaded, and not in force yet: so far nothing has changed.
struct Change {
    attachment: Attachment,
    old: Settings,
    new: Settings,
    record: Record,
    moves: Moves,
    program: Program,
    /// Whether limits begin to share the table: the program that runs does not count its entries.
    begins_to_share: bool,
    /// What its own list maps hold; none where it shares those of the program that runs.
    prefixes: Option<BTreeMap<IpNet, Listed>>,
}

impl Change {
    /// Loads the next program; `old` are the host's own settings.
    fn prepare(
        attachment: Attachment,
        old: Settings,
        wanted: Wanted,
        variant: Variant,
    ) -> Result<Self> {
        let lists_before = attachment.settings()?.lists;
        let (mut record, moves) = attachment
            .record
            .changed(wanted.settings.clone(), clock::now()?)?;
        record.logging = variant == Variant::Log;
        record.file = wanted.file;
        let (lists, now) = (&wanted.settings.lists, clock::today());
        record.origins = match wanted.by {
            By::File => Origins::new(lists, By::File, &now),
            By::Command | By::Fleet => record.origins.edited(&old.lists, lists, &now),
        };
        let config = record.config()?;
        let begins_to_share = config.room != 0 && attachment.record.config()?.room == 0;
        let same_lists =
            lists_before == record.settings.lists && attachment.record.tiers == record.tiers;
        let prefixes = (!same_lists).then(|| record.settings.lists.compile(&record.tiers));
        let lists = attachment.generation_folder()?;
        let program = object::load(
            variant,
            &config,
            Maps::Pinned(&attachment.dir),
            match &prefixes {
                None => ListMaps::Pinned(&lists),
                Some(prefixes) => ListMaps::New(prefixes),
            },
            Entry {
                frags: record.frags,
                chained: record.chained,
            },
        )?;
        Ok(Self {
            attachment,
            old,
            new: wanted.settings,
            record,
            moves,
            program,
            begins_to_share,
            prefixes,
        })
    }

    /// The swap itself, with the lock of the attachment.
    fn put_in_force(self) -> Result<Swapped> {
        let Self {
            mut attachment,
            old,
            new,
            record,
            moves,
            mut program,
            begins_to_share,
            prefixes,
        } = self;
        clear_leftovers(&attachment);
        let epochs = record.limits.iter().map(|seat| (seat.slot, seat.epoch));
        attachment
            .tables
            .prepare(&moves.slots_taken, &moves.bits_taken, epochs)?;
        if begins_to_share {
            program.share_out(&attachment.tables.held())?;
        }
        if let Some(prefixes) = prefixes {
            let drops = lists::drops(&attachment.lists.entries()?);
            program.carry_drops(&prefixes, &drops)?;
        }
        put_in_force(&attachment, &program, &record)?;
        attachment
            .tables
            .clean_up(&moves.slots_left, &moves.slots_turned);
        Ok(Swapped {
            old,
            new,
            spread: record.spread,
            file: record.file,
            frame_max: record.frame_max,
            program,
        })
    }
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
    let swapped = generation::pin(program, record, &attachment.dir, next).and_then(|()| {
        attachment
            .link
            .replace(Some(running(attachment)?.as_fd()), program.fd()?)
    });
    let obsolete = if swapped.is_ok() {
        attachment.generation
    } else {
        next
    };
    // What stays is cleared the next time, and in nobody's way till then.
    let _ = unpin::generation(&attachment.dir, obsolete);
    swapped
}

/// Removes the generations that a killed command left.
fn clear_leftovers(attachment: &Attachment) {
    for number in pins::generations(&attachment.dir).unwrap_or_default() {
        if number != attachment.generation {
            // What stays is cleared the next time.
            let _ = unpin::generation(&attachment.dir, number);
        }
    }
}

/// The program that runs. Not by its id, which would want `CAP_SYS_ADMIN`.
fn running(attachment: &Attachment) -> Result<OwnedFd> {
    let generation = attachment.generation_folder()?;
    let failed = |error| Error::path("opening", generation.path().join(object::PIN), error);
    generation.object(object::PIN).map_err(failed)
}
