//! Keeping what is on trial.

use super::FOLDER;
use crate::kernel::{
    error::{Error, Result},
    state::attachment::Attachment,
    sys::{link::Link, requirements},
};

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was on trial, and no longer is.
    Now,
    /// It was not on trial.
    Already,
}

/// Keeps the attachment of `name` for good: from here on no process is needed.
pub async fn keep(name: &str) -> Result<Kept> {
    requirements::privileges()?;
    let (attachment, _lock) = match Attachment::open_locked(name).await {
        Err(Error::NotAttached(name)) => return Err(Error::NothingToKeep(name)),
        opened => opened?,
    };
    let (link, folder) = (&attachment.link, &attachment.dir);
    if link.try_until().is_none() {
        return Ok(Kept::Already);
    }
    folder.check_own()?;
    // The holder sees the pin, and goes.
    link.pin(folder)?;
    // The holder does not wait for the lock for ever.
    if link.info()?.interface == 0 {
        Link::unpin(folder)?;
        return Err(Error::NothingToKeep(name.to_owned()));
    }
    // It is in nobody's way.
    let _ = folder
        .open(FOLDER)
        .map(|trial| trial.map(|trial| trial.remove()));
    Ok(Kept::Now)
}
