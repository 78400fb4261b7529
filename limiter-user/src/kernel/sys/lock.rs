//! The lock of an attachment: one change at a time.
//!
//! It is on the attachment's folder, which only root and its owner can open. It leaves no file behind, and goes with the
//! process however that ends. Readers take no lock.

use std::{
    fs::{File, TryLockError},
    thread,
    time::{Duration, Instant},
};

use crate::kernel::{
    error::{Error, Result},
    sys::folder::Dir,
};

/// The time for which a command waits for another one.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts.
pub const RETRY: Duration = Duration::from_millis(20);

/// Nobody else changes the attachment as long as this lives.
#[derive(Debug)]
pub struct Lock {
    _folder: File,
}

/// Waits for other commands to be done. The folder may have been removed by then ([`Dir::is_current`]).
pub fn lock(folder: &Dir) -> Result<Lock> {
    let start = Instant::now();
    loop {
        match try_lock(folder)? {
            Some(lock) => return Ok(lock),
            None if start.elapsed() < PATIENCE => thread::sleep(RETRY),
            None => return Err(Error::Busy(PATIENCE.as_secs())),
        }
    }
}

/// The lock, if nobody else has it.
pub fn try_lock(folder: &Dir) -> Result<Option<Lock>> {
    let file = folder.reopen()?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock { _folder: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::path("locking", folder.path(), error)),
    }
}
