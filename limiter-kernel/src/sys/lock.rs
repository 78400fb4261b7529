//! The lock of an attachment: one change at a time.
//!
//! The lock is on the attachment's folder, which only root and the folder's owner can open. It leaves no file behind,
//! and ends with the process, however that ends. Readers take no lock.

use std::{
    fs::{File, TryLockError},
    thread,
    time::{Duration, Instant},
};

use crate::{Error, Result, sys::Dir};

/// The time for which a command waits for another one.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts.
pub const RETRY: Duration = Duration::from_millis(20);

/// A lock on an attachment. Until it is dropped, only its holder changes the attachment.
#[derive(Debug)]
pub struct Lock {
    _folder: File,
}

/// The way of holding a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// By one process.
    Alone,
    /// By several that hold it so.
    Together,
}

/// Waits for other commands to finish, and takes the lock; `None` if one of them has removed the folder.
pub fn lock(folder: &Dir) -> Result<Option<Lock>> {
    let lock = wait(folder, Held::Alone)?;
    Ok(folder.is_current()?.then_some(lock))
}

/// Waits for the lock of a folder, and takes it.
pub fn wait(folder: &Dir, held: Held) -> Result<Lock> {
    let start = Instant::now();
    loop {
        match try_to(folder, held)? {
            Some(lock) => return Ok(lock),
            None if start.elapsed() < PATIENCE => thread::sleep(RETRY),
            None => return Err(Error::Busy(PATIENCE.as_secs())),
        }
    }
}

/// Takes the lock, if it is free.
pub fn try_lock(folder: &Dir) -> Result<Option<Lock>> {
    try_to(folder, Held::Alone)
}

fn try_to(folder: &Dir, held: Held) -> Result<Option<Lock>> {
    let file = folder.reopen()?;
    let tried = match held {
        Held::Alone => file.try_lock(),
        Held::Together => file.try_lock_shared(),
    };
    match tried {
        Ok(()) => Ok(Some(Lock { _folder: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::path("locking", folder.path(), error)),
    }
}
