//! The processes that watch an attachment. Each holds a lock for as long as it runs, however it ends, on a folder among
//! the pins, because only folders can be locked there.

use limiter_common::abi::events::WATCHERS;

use crate::{
    Error, Result,
    state::pins,
    sys::{
        Dir, Lock,
        lock::{self, Held},
    },
};

/// The place of a watching process among the watches of an attachment.
#[derive(Debug)]
pub struct Place {
    /// Its number, below [`WATCHERS`].
    pub number: u32,
    /// Numbers of places of which nobody watches any more.
    pub left: Vec<u32>,
    _alone: Lock,
}

/// Takes a free place in the `folder` of an attachment; `None` if the attachment is gone.
pub fn take_place(folder: &Dir, interface: &str) -> Result<Option<Place>> {
    // Prevents that another command removes the folders meanwhile.
    let Some(_lock) = lock::lock(folder)? else {
        return Ok(None);
    };
    let (mut taken, mut left) = (None, Vec::new());
    for number in 0..WATCHERS {
        let name = pins::watch(number);
        let place = match folder.open(&name)? {
            None if taken.is_some() => continue,
            None => folder.make(&name)?,
            place => place,
        };
        let Some(place) = place else { return Ok(None) };
        match lock::try_lock(&place)? {
            Some(alone) if taken.is_none() => taken = Some((number, alone)),
            Some(_) => left.push(number),
            None => {}
        }
    }
    let (number, alone) = taken.ok_or_else(|| {
        Error::Refused(format!(
            "{WATCHERS} processes watch '{interface}' already, and there is no room for more: end one of them (`pgrep -af 'limiter.*watch'`)"
        ))
    })?;
    Ok(Some(Place {
        number,
        left,
        _alone: alone,
    }))
}

/// Keeps the program showing packets that pass, beside others that want them too; `None` if the attachment is gone.
pub fn want_passed(folder: &Dir) -> Result<Option<Lock>> {
    let Some(_lock) = lock::lock(folder)? else {
        return Ok(None);
    };
    let Some(passed) = folder.make(pins::PASSED)? else {
        return Ok(None);
    };
    lock::wait(&passed, Held::Together).map(Some)
}

/// Returns true if a process wants packets that pass.
pub fn wants_passed(folder: &Dir) -> Result<bool> {
    match folder.open(pins::PASSED)? {
        Some(passed) => Ok(lock::try_lock(&passed)?.is_none()),
        None => Ok(false),
    }
}
