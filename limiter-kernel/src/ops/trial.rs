//! Trials: a program with a deadline. After the deadline, the program hands packets to the generation that
//! was in force before, or passes them if nothing was. No process is needed for that.
//!
//! The fallback of a trial is loaded when the trial begins. It knows when its limits change to those of the trial,
//! and when they change back.

use std::os::fd::AsFd;

use crate::{
    Attachment, Error, Result,
    ops::{
        change::{Change, clear_others},
        log,
    },
    program::log as messages,
    state::{Current, OnTrial, Record},
};

/// The result of [`end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The trial's settings stay.
    Kept,
    /// The settings before the trial are in force again.
    Reverted,
    /// There was no trial.
    NoTrial,
    /// There was a log, and it has ended.
    LogEnded,
    /// Nothing changed. Nothing was attached before the trial, so only `detach` goes back.
    NothingBefore,
}

/// Keeps the trial on the interface called `name`, or goes back to the settings before it if `revert`.
pub async fn end(name: &str, revert: bool) -> Result<Ended> {
    let (attachment, _lock) = Attachment::open_locked(name).await?;
    let Some(OnTrial::Until(end) | OnTrial::Ended(end)) = attachment.trial.clone() else {
        return Ok(Ended::NoTrial);
    };
    match log::is_on(&attachment)? {
        true if revert => return log::end(attachment).map(|_| Ended::LogEnded),
        true => return Ok(Ended::NoTrial),
        false => {}
    }
    let too_late = || {
        Error::Refused(format!(
            "the trial on '{name}' ended at {end}, and the settings before it are in force again: make the change again to keep it"
        ))
    };
    attachment.dir.check_own()?;
    if attachment.try_until().is_none() {
        settled(attachment)?;
        return Err(too_late());
    }
    if revert && attachment.current.fallback.is_none() {
        return Ok(Ended::NothingBefore);
    }
    let change = Change::end_trial(attachment, revert)?;
    if !change.is_up_to_date()? {
        // Fails by itself if nothing was attached before the trial.
        Attachment::open(name).await?;
        return Err(too_late());
    }
    change.put_in_force()?;
    Ok(if revert { Ended::Reverted } else { Ended::Kept })
}

/// Opens the attachment of `name`, and clears the leftovers of a trial that is over.
pub(crate) async fn open_settled(name: &str) -> Result<Attachment> {
    let attachment = Attachment::open(name).await?;
    if !matches!(attachment.trial, Some(OnTrial::Ended(_))) {
        return Ok(attachment);
    }
    let (attachment, _lock) = Attachment::open_locked(name).await?;
    settled(attachment)
}

/// Clears the leftovers of a trial that is over, with the caller's lock. The generation in force is then the link's
/// program.
pub(crate) fn settled(mut attachment: Attachment) -> Result<Attachment> {
    if !matches!(attachment.trial, Some(OnTrial::Ended(_))) {
        return Ok(attachment);
    }
    attachment.dir.check_own()?;
    let (linked, in_force) = (&attachment.current.linked, &attachment.current.in_force);
    let tried = Record::open(&linked.dir, &attachment.interface.name)?;
    let (tried_program, program) = (linked.program()?, in_force.program()?);
    attachment
        .link
        .replace(Some(tried_program.as_fd()), program.as_fd())?;
    clear_others(&attachment, &[in_force.number], None);
    messages::clear(&attachment.dir, false);
    let (left, turned) = tried.left_and_turned(&attachment.record);
    attachment.tables.clean_up(&left, &turned);
    attachment.current = Current::only(attachment.current.in_force.clone());
    attachment.trial = None;
    Ok(attachment)
}
