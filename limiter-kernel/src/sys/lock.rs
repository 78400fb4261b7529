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

/// Waits for other commands to finish, and takes the lock; `None` if one of them has removed the folder.
pub fn lock(folder: &Dir) -> Result<Option<Lock>> {
    let start = Instant::now();
    loop {
        match try_lock(folder)? {
            Some(lock) => return Ok(folder.is_current()?.then_some(lock)),
            None if start.elapsed() < PATIENCE => thread::sleep(RETRY),
            None => return Err(Error::Busy(PATIENCE.as_secs())),
        }
    }
}

/// Takes the lock, if it is free.
pub fn try_lock(folder: &Dir) -> Result<Option<Lock>> {
    let file = folder.reopen()?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { _folder: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::path("locking", folder.path(), error)),
    }
}
