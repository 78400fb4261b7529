//! The kernel's clock that the program reads.

use std::{
    fs,
    io::ErrorKind,
    time::{Duration, SystemTime},
};

use nix::time::{ClockId, clock_getres, clock_gettime};

use crate::{Failed, Result};

/// The clock that the program reads, in nanoseconds.
pub fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).failed("reading the clock")?;
    let shown = Duration::from(time).as_nanos();
    let of_kernel = i128::try_from(shown).unwrap_or(0) - shift()?;
    Ok(u64::try_from(of_kernel).unwrap_or(0))
}

/// Nanoseconds by which the clock is ahead in this process's time namespace. A container may have one, while the
/// program reads the kernel's clock.
fn shift() -> Result<i128> {
    match fs::read_to_string("/proc/self/timens_offsets") {
        Ok(offsets) => Ok(monotonic_in(&offsets).unwrap_or(0)),
        // A kernel without time namespaces.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error).failed("reading the time namespace"),
    }
}

/// Reads the line `monotonic SECONDS NANOSECONDS`: see time_namespaces(7).
fn monotonic_in(offsets: &str) -> Option<i128> {
    let line = offsets
        .lines()
        .find_map(|line| line.strip_prefix("monotonic"))?;
    let (seconds, nanoseconds) = line.trim().split_once(char::is_whitespace)?;
    let number = |text: &str| text.trim().parse::<i128>().ok();
    Some(number(seconds)? * 1_000_000_000 + number(nanoseconds)?)
}

/// The wall-clock time at the moment `then` of the program's clock, if the wall clock is not set in between.
pub fn wall(then: u64) -> Result<SystemTime> {
    let (now, wall) = (now()?, SystemTime::now());
    let [ahead, ago] = [then.saturating_sub(now), now.saturating_sub(then)];
    Ok(wall + Duration::from_nanos(ahead) - Duration::from_nanos(ago))
}

/// The start of the machine, if the wall clock was not set since.
pub fn booted() -> Result<SystemTime> {
    let since = clock_gettime(ClockId::CLOCK_BOOTTIME).failed("reading the clock")?;
    let booted = SystemTime::now().checked_sub(since.into());
    Ok(booted.unwrap_or(SystemTime::UNIX_EPOCH))
}

/// A time, RFC 3339.
pub fn shown(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Length of the kernel's tick in nanoseconds: the resolution of the coarse clock.
pub fn tick() -> Result<u64> {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE);
    let tick = tick.failed("reading the clock's resolution")?;
    Ok(Duration::from(tick).as_nanos().try_into().unwrap_or(0))
}

/// Number of CPUs that the machine can have.
pub fn possible_cpus() -> Result<usize> {
    let cpus = aya::util::nr_cpus().map_err(|(_, error)| error);
    cpus.failed("counting the CPUs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_namespace_offsets_are_parsed() {
        let ahead = "monotonic           86400         0\nboottime         604800         0\n";
        assert_eq!(monotonic_in(ahead), Some(86_400_000_000_000));
        let behind = "monotonic              -1         999999999\n";
        assert_eq!(monotonic_in(behind), Some(-1));
        assert_eq!(monotonic_in(""), None);
    }
}
