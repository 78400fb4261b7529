//! Changing what is in force: a new program with new constants over the same maps, swapped into the
//! link in one step. Each packet sees the old configuration or the new one, and no bucket is lost.

use std::os::fd::{AsFd, OwnedFd};

use limiter_common::bucket;

use super::{
    attach::pin_generation,
    attachment::Attachment,
    bpffs,
    error::{Error, Result},
    object::{self, Maps, Program, Variant},
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
    /// The program that runs now.
    pub program: Program,
}

/// Changes the settings of the attachment of `name`.
pub async fn set(
    name: &str,
    change: impl FnOnce(&Settings) -> Result<Settings, Invalid>,
) -> Result<Swapped> {
    swap(name, Variant::Plain, change).await
}

/// Puts another build or configuration of the program in the place of the one that runs.
pub(super) async fn swap(
    name: &str,
    variant: Variant,
    change: impl FnOnce(&Settings) -> Result<Settings, Invalid>,
) -> Result<Swapped> {
    super::requirements::privileges()?;
    let lock = bpffs::look()?.then(bpffs::lock).transpose()?;
    let attachment = Attachment::open(name).await?;
    clear_leftovers(&attachment);
    let old = attachment.record.settings.clone();
    let new = change(&old)?;
    let mut record = attachment.record.changed(new.clone(), now()?)?;
    record.logging = variant == Variant::Log;
    let config = record.config()?;
    let program = object::load(
        variant,
        &config,
        Maps::Pinned(&attachment.folder),
        record.frags,
    )?;
    put_in_force(&attachment, &program, &record)?;
    drop(lock);
    Ok(Swapped { old, new, program })
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
    let removed = pins::remove(&pins::generation(&attachment.folder, obsolete));
    swapped.and(removed)
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

/// The clock that the program reads, in ticks.
pub fn now() -> Result<u64> {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_err(|error| Error::system("reading the clock", error.into()))?;
    let nanoseconds = time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs();
    Ok(bucket::ticks(nanoseconds))
}
