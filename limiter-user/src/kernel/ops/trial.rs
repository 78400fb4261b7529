//! Trials: a generation whose program knows when its time is up. From then on it hands packets to the generation that
//! was in force before it, or lets them pass where nothing was. No process is needed for that.
//!
//! The generation that a trial falls back to is loaded when the trial begins. It knows when its limits change to those
//! of the trial, and when they change back.

use std::{os::fd::AsFd, time::Duration};

use crate::kernel::{
    error::{Error, Result},
    ops::change::{Change, clear_others},
    state::{attachment::Attachment, current::OnTrial, generation, record::Record},
    sys::requirements,
};

/// The shortest and the longest trial.
pub const BOUNDS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// What [`end`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// What was on trial stays.
    Kept,
    /// What was in force before is in force again.
    Reverted,
    /// There was no trial.
    NoTrial,
    /// Nothing: to go back to what was before the trial is to detach.
    NothingBefore,
}

/// Keeps what is on trial on the interface called `name`, or goes back to what was before it if `revert`.
pub async fn end(name: &str, revert: bool) -> Result<Ended> {
    requirements::privileges()?;
    let (attachment, _lock) = match Attachment::open_locked(name).await {
        Err(Error::NotAttached(name)) => {
            return Err(Error::Refused(format!(
                "nothing to keep: limiter is not attached to '{name}': `limiter attach {name} --rate RATE` attaches it"
            )));
        }
        opened => opened?,
    };
    let Some(trial) = attachment.trial else {
        return Ok(Ended::NoTrial);
    };
    attachment.dir.check_own()?;
    if trial.is_over {
        settled(attachment)?;
        return Err(too_late(name, trial));
    }
    if revert && attachment.fallback()?.is_none() {
        return Ok(Ended::NothingBefore);
    }
    let change = Change::end_trial(attachment, revert)?;
    if !change.is_up_to_date()? {
        // Where nothing was before, that says so.
        Attachment::open(name).await?;
        return Err(too_late(name, trial));
    }
    change.put_in_force()?;
    Ok(if revert { Ended::Reverted } else { Ended::Kept })
}

fn too_late(name: &str, trial: OnTrial) -> Error {
    Error::Refused(format!(
        "the trial on '{name}' ended at {}, and what was in force before holds again: make the change once more to keep it",
        trial.end()
    ))
}

/// The attachment of `name`, after what a trial that is over has left is cleared.
pub(in crate::kernel) async fn open_settled(name: &str) -> Result<Attachment> {
    let attachment = Attachment::open(name).await?;
    if attachment.trial.is_none_or(|trial| !trial.is_over) {
        return Ok(attachment);
    }
    let (attachment, _lock) = Attachment::open_locked(name).await?;
    settled(attachment)
}

/// The attachment, of which the caller has the lock, without a trial that is over: what is in force is the link's program.
pub(in crate::kernel) fn settled(mut attachment: Attachment) -> Result<Attachment> {
    if attachment.trial.is_none_or(|trial| !trial.is_over) {
        return Ok(attachment);
    }
    attachment.dir.check_own()?;
    let dir = &attachment.dir;
    let tried = Record::open(
        &generation::open(dir, attachment.linked)?,
        &attachment.interface.name,
    )?;
    let (from, to) = (
        generation::program(dir, attachment.linked)?,
        generation::program(dir, attachment.generation)?,
    );
    attachment.link.replace(Some(from.as_fd()), to.as_fd())?;
    clear_others(&attachment, &[attachment.generation], false);
    let (left, turned) = left_by(&tried, &attachment.record);
    attachment.tables.clean_up(&left, &turned);
    attachment.settle();
    Ok(attachment)
}

/// Slots of limits that only the trial had, and of those that it made drop what they had not dropped, or the other way
/// round.
fn left_by(tried: &Record, now: &Record) -> (Vec<u32>, Vec<u32>) {
    let others = now.with_slots();
    let (mut left, mut turned) = (Vec::new(), Vec::new());
    for (limit, slot) in tried.with_slots() {
        match others.iter().find(|(_, other)| other.number == slot.number) {
            None => left.push(slot.number),
            Some((other, _)) => {
                let before = tried.settings.shadow || limit.shadow;
                if before != (now.settings.shadow || other.shadow) {
                    turned.push(slot.number);
                }
            }
        }
    }
    (left, turned)
}
