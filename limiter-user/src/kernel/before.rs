//! What an earlier layout has otherwise, and how its attachments become those of this one.
//!
//! Layout 5 keeps in `COUNTERS` what this one keeps in `COUNTED`, and neither layout 5 nor layout 6 has `SHARES` and
//! `LEASES`; all else is the same. So it is read as it is, and
//! taken over with the next change: the maps that it lacks are pinned beside, the folder of pins moves
//! to this layout's place in one step, and what follows is a change like any other. The old program of layout 5 counts
//! in its own map until the last CPU has left it, and the new one in the other: figures are the sums of both, so
//! that nobody has to know when that was. What limits hold is counted from the table before the swap: sources that
//! the old program takes in between are not in it.

use std::path::{Path, PathBuf};

use limiter_common::{counters::Count, layout::VERSION};

use super::{
    attachment::{Attachment, Pinned, look},
    error::{Error, Result},
    folder::{Dir, Kind},
    foreign::{self, Foreign},
    lock::{self, Lock},
    pins::{self, Folder},
    unpin,
};

/// The oldest layout that is read.
pub const OLDEST: u32 = 5;

const _: () = assert!(VERSION == 7, "see ARCHITECTURE.md, Layouts");

/// The map that has another shape now, under its name of before.
pub const COUNTERS: &str = "COUNTERS";
/// What stands in its place.
const COUNTED: &str = "COUNTED";

/// The maps that an attachment of this layout lacks.
fn lacks(layout: u32) -> &'static [&'static str] {
    match layout {
        ..=5 => &[COUNTED, "SHARES", "LEASES"],
        6 => &["SHARES", "LEASES"],
        _ => &[],
    }
}

/// Whether the folder of an attachment is one of an earlier layout, without this map.
pub fn is_lacking(folder: &Path, map: &str) -> bool {
    let layout = folder
        .parent()
        .and_then(|above| above.file_name()?.to_str()?.strip_prefix('v')?.parse().ok());
    layout.is_some_and(|layout| lacks(layout).contains(&map))
}

/// What one CPU has counted, in layout 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// One count for each of the 13 reasons that there were.
    pub by_reason: [Count; 13],
    /// Sources taken into the table.
    pub sources_added: u64,
    /// Sources whose entry another one took.
    pub sources_removed: u64,
}

const _: () = assert!(size_of::<Counters>() == 13 * 16 + 2 * 8);

impl From<Counters> for limiter_common::counters::Counters {
    fn from(before: Counters) -> Self {
        let mut now = Self {
            sources_added: before.sources_added,
            sources_removed: before.sources_removed,
            ..Self::default()
        };
        now.by_reason[..before.by_reason.len()].copy_from_slice(&before.by_reason);
        now
    }
}

/// The maps that are in a folder.
pub fn maps_in(folder: &Dir, layout: u32) -> Vec<&'static str> {
    // It came from an earlier layout.
    let has_counters = layout < 6 || folder.pin(COUNTERS).is_ok();
    let own = pins::MAPS.into_iter();
    own.filter(|name| !lacks(layout).contains(name))
        .chain(has_counters.then_some(COUNTERS))
        .collect()
}

/// What was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// Version of the limiter that had loaded the program.
    pub version: String,
    /// Its layout.
    pub layout: u32,
}

impl std::fmt::Display for TakenOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "took over from limiter {} (layout {}): buckets, counters and lists kept",
            self.version, self.layout
        )
    }
}

/// An attachment of an earlier layout that is about to be taken over. Dropped before it is done, it leaves
/// that as it was.
#[derive(Debug)]
pub struct TakeOver {
    /// None when it is done.
    from: Option<Dir>,
    done: TakenOver,
    /// The process that held a trial of the earlier version has this lock until it sees that the trial was kept. It looks
    /// for that below the earlier layout's folder, so nothing moves before.
    _trial_ended: Lock,
}

impl TakeOver {
    /// None where `attachment` is of this layout. The caller has the lock of all writers.
    pub fn begin(attachment: &Attachment) -> Result<Option<Self>> {
        if attachment.layout == VERSION {
            return Ok(None);
        }
        let interface = &attachment.interface.name;
        if attachment.try_until().is_some() {
            // The process that holds it knows its folder by name.
            return Err(Error::TrialOfEarlier(interface.clone()));
        }
        let take_over = Self {
            _trial_ended: lock::lock(&attachment.dir)?,
            from: Some(attachment.dir.clone()),
            done: TakenOver {
                version: attachment.record.version.clone(),
                layout: attachment.layout,
            },
        };
        // What a killed command has left; no program that runs counts there.
        take_over.drop_new_maps();
        clear_target(attachment.dir.path())?;
        Ok(Some(take_over))
    }

    /// Moves the pins, with the new map that was pinned among them. From here on it is an attachment of this
    /// layout, whatever program runs.
    pub fn finish(mut self, attachment: &mut Attachment) -> Result<TakenOver> {
        let from = attachment.dir.clone();
        let path = target(from.path());
        let failed = |error| Error::path("moving", from.path(), error);
        let to = pins::create_root()?;
        from.move_to(&to).map_err(failed)?;
        self.from = None;
        unpin::clear_above(&from);
        let moved = Dir::walk(&path)?;
        attachment.dir = moved.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        attachment.layout = VERSION;
        Ok(self.done.clone())
    }

    fn drop_new_maps(&self) {
        let Some(from) = &self.from else { return };
        for name in lacks(self.done.layout) {
            // At worst it stays, and is in nobody's way.
            let _ = from.unpin(name, Kind::Map);
        }
    }
}

impl Drop for TakeOver {
    fn drop(&mut self) {
        self.drop_new_maps();
    }
}

/// The folder whose lock is that of an attachment: an earlier version has its own locked as long as a trial lasts.
pub fn to_lock(attachment: &Dir) -> &Dir {
    let above = attachment.parent().unwrap_or(attachment);
    match above.path() == pins::root() {
        true => attachment,
        false => above,
    }
}

/// Where the pins of `folder` are in this layout.
fn target(folder: &Path) -> PathBuf {
    pins::root().join(folder.file_name().unwrap_or_default())
}

/// Makes room for a folder that is to move: what a killed command has left there goes.
fn clear_target(from: &Path) -> Result<()> {
    let path = target(from);
    let Some(folder) = pins::folders()?
        .into_iter()
        .find(|folder| folder.path == path)
    else {
        return Ok(());
    };
    let Some(dir) = folder.open()? else {
        return Ok(());
    };
    match look(&folder)? {
        Pinned::Leftover => foreign::clear(&dir, Foreign::open(&dir)?).map(drop),
        Pinned::To(..) | Pinned::Gone(_) => Err(in_the_way(folder)),
    }
}

fn in_the_way(folder: Folder) -> Error {
    Error::Unreadable {
        interface: folder.interface,
        why: format!("{} belongs to another attachment", folder.path.display()),
    }
}
