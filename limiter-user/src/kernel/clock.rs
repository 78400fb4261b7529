//! The kernel's clock, as the program reads it.

use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_getres, clock_gettime};

use super::error::{Error, Result};

/// The clock that the program reads, in nanoseconds.
pub fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_err(|error| Error::system("reading the clock", error.into()))?;
    Ok(time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs())
}

/// What people's clock showed at the moment `then` of the clock that the program reads, if it was not set since.
pub fn wall(then: u64) -> Result<SystemTime> {
    let (now, wall) = (now()?, SystemTime::now());
    let ago = Duration::from_nanos(now.saturating_sub(then));
    Ok(wall.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Length of the kernel's tick in nanoseconds: the coarse clock goes by ticks, and says so.
pub fn tick() -> Result<u64> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_err(|error| Error::system("asking for the clock's resolution", error.into()))?;
    Ok(Duration::from(tick).as_nanos().try_into().unwrap_or(0))
}
