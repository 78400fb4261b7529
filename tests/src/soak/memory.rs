//! Checks that memory and descriptors of processes do not grow.

use std::{collections::BTreeMap, fs};

/// Readings of each process, about one per second: bytes of memory, and open descriptors.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<String, Vec<(u64, u64)>>);

/// Maximum growth of a process in bytes: less than a leak over many rounds, more than an allocator's variation.
const MOST: u64 = 1 << 20;
/// Minimum number of readings for a check.
const LOOKS: usize = 12;

impl Memory {
    /// Takes a reading of a process, if it has not ended.
    pub fn note(&mut self, name: &str, process: u32) {
        let reading = || {
            let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
            let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
            let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
            Some((4_096 * pages, descriptors as u64))
        };
        let readings = self.0.entry(name.to_owned()).or_default();
        readings.extend(reading());
    }

    /// Panics if a process has grown.
    pub fn expect_flat(&self) {
        for (name, readings) in &self.0 {
            let (bytes, descriptors): (Vec<u64>, Vec<u64>) = readings.iter().copied().unzip();
            assert!(growth(&bytes) < MOST, "{name} has grown: {bytes:?}");
            let more = growth(&descriptors);
            assert!(more <= 2, "{name} has more descriptors: {descriptors:?}");
        }
    }
}

/// The minimum of the last quarter minus the minimum of the quarter before the middle. Minima, because commands that run
/// during a reading add memory and descriptors for a short time; a leak raises the minimum too.
fn growth(values: &[u64]) -> u64 {
    if values.len() < LOOKS {
        return 0;
    }
    let quarter = values.len() / 4;
    let least = |part: &[u64]| part.iter().copied().min().unwrap_or(0);
    let late = least(&values[values.len() - quarter..]);
    late.saturating_sub(least(&values[quarter..2 * quarter]))
}

#[cfg(test)]
mod tests {
    use super::growth;

    #[test]
    fn leak_is_distinguished_from_running_commands_and_startup() {
        // Descriptors without a leak, on a busy machine.
        let busy = [
            23, 21, 19, 17, 21, 24, 19, 21, 21, 22, 21, 17, 21, 21, 21, 21, 21, 25, 24,
        ];
        assert!(growth(&busy) <= 4);
        let start: Vec<u64> = (0..100).map(|look| 1_000 * look.min(15)).collect();
        assert_eq!(growth(&start), 0);
        let leak: Vec<u64> = (0..100).map(|look| 1_000 * look).collect();
        assert_eq!(growth(&leak), 50_000);
    }
}
