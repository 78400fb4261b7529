//! Checks that memory and descriptors of processes do not grow.

use std::{collections::BTreeMap, fs};

/// Readings of each process, about one per second.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<String, Series>);

/// Readings of one process.
#[derive(Debug, Default)]
struct Series {
    process: u32,
    bytes: Vec<u64>,
    descriptors: Vec<u64>,
}

/// The range of memory and descriptors that the processes of a kind used.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Number of processes.
    pub processes: usize,
    /// Bytes of memory.
    pub bytes: (u64, u64),
    /// Open descriptors.
    pub descriptors: (u64, u64),
    /// The largest growth of one process after its start, in bytes (difference of medians).
    pub grown: i64,
}

/// Maximum growth of a process in bytes: less than a leak over many rounds, more than an allocator's variation.
const MOST: i64 = 1 << 20;
/// Minimum number of readings for a check.
const LOOKS: usize = 12;

impl Memory {
    /// Takes a reading of a process. The part of the name before ` #` is its kind.
    pub fn note_memory(&mut self, name: &str, process: u32) {
        let Some((bytes, descriptors)) = look(process) else {
            return;
        };
        let series = self.0.entry(name.to_owned()).or_default();
        series.process = process;
        series.bytes.push(bytes);
        series.descriptors.push(descriptors);
    }

    /// Panics if a process has grown.
    pub fn expect_flat(&self) {
        for (name, series) in &self.0 {
            let (bytes, descriptors) = (growth(&series.bytes), leaked(&series.descriptors));
            assert!(
                bytes < MOST,
                "{name} has grown by {bytes} bytes: {:?}",
                series.bytes
            );
            assert!(
                descriptors <= 2,
                "{name} has {descriptors} descriptors more than at first: {:?}",
                series.descriptors
            );
        }
    }

    /// The ranges by kind.
    pub fn ranges(&self) -> BTreeMap<String, Range> {
        let mut ranges: BTreeMap<String, Range> = BTreeMap::new();
        for (name, series) in &self.0 {
            let kind = name.split(" #").next().unwrap_or(name).to_owned();
            let range = ranges.entry(kind).or_insert(Range {
                processes: 0,
                bytes: (u64::MAX, 0),
                descriptors: (u64::MAX, 0),
                grown: i64::MIN,
            });
            range.processes += 1;
            range.bytes = widened(range.bytes, &series.bytes);
            range.descriptors = widened(range.descriptors, &series.descriptors);
            range.grown = range.grown.max(growth(&series.bytes));
        }
        ranges
    }
}

fn widened((least, most): (u64, u64), values: &[u64]) -> (u64, u64) {
    let all = || values.iter().copied();
    (all().fold(least, u64::min), all().fold(most, u64::max))
}

/// The median of the last quarter minus the median of the first quarter, without the first fifth of all readings.
fn growth(values: &[u64]) -> i64 {
    if values.len() < LOOKS {
        return 0;
    }
    let warm = &values[values.len() / 5..];
    let quarter = warm.len() / 4;
    let median = |part: &[u64]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        i64::try_from(sorted[sorted.len() / 2]).unwrap()
    };
    median(&warm[warm.len() - quarter..]) - median(&warm[..quarter])
}

/// Growth of the minimum from the first half to the second half. Commands that run during a reading add descriptors for
/// a short time. A leak raises the minimum too.
fn leaked(descriptors: &[u64]) -> u64 {
    if descriptors.len() < LOOKS {
        return 0;
    }
    let (first, second) = descriptors.split_at(descriptors.len() / 2);
    let least = |part: &[u64]| part.iter().copied().min().unwrap_or(0);
    least(second).saturating_sub(least(first))
}

/// Bytes in memory, and number of descriptors; none if the process has ended.
fn look(process: u32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
    Some((1_024 * kilobytes, descriptors as u64))
}

#[cfg(test)]
mod tests {
    use super::{growth, leaked};

    #[test]
    fn leaked_descriptors_are_distinguished_from_running_commands() {
        // Readings without a leak, on a busy machine.
        let busy = [
            23, 21, 19, 17, 21, 24, 19, 21, 21, 22, 21, 17, 21, 21, 21, 21, 21, 25, 24,
        ];
        assert_eq!(leaked(&busy), 0);
        let leak: Vec<u64> = (0..19).map(|look| 17 + look / 3 + 4 * (look % 2)).collect();
        assert!(leaked(&leak) > 2);
    }

    #[test]
    fn memory_leak_is_distinguished_from_startup_growth() {
        let start: Vec<u64> = (0..100).map(|look| 1_000 * look.min(15)).collect();
        assert_eq!(growth(&start), 0);
        let leak: Vec<u64> = (0..100).map(|look| 1_000 * look).collect();
        assert!(growth(&leak) > 50_000);
    }
}
