//! The memory and the descriptors of processes.

use std::collections::BTreeMap;

use limiter_tests::processes::{descriptors_of, status_of};
use nix::unistd::Pid;

/// Readings of each process, about one per second: kilobytes of memory, and open descriptors.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<&'static str, Vec<[u64; 2]>>);

/// Maximum growth of a process in kilobytes and descriptors: less than a leak over many rounds, more than an
/// allocator's variation, and than the pipes of two commands that run at every reading on a busy machine.
const MOST: [u64; 2] = [1_024, 6];

impl Memory {
    /// Takes a reading of a process. Pages of its program, which it touches one by one for as long as code runs for the
    /// first time, are not counted.
    pub fn note(&mut self, name: &'static str, process: Pid) {
        let memory = status_of(process, "RssAnon");
        let memory = memory.trim_end_matches(" kB").parse().unwrap();
        let readings = self.0.entry(name).or_default();
        readings.push([memory, descriptors_of(process) as u64]);
    }

    /// Panics if a process has grown. Compares the minima of the last quarter and of the quarter before the middle:
    /// commands that run during a reading add memory and descriptors for a short time; a leak raises the minimum too.
    pub fn expect_flat(&self) {
        for (name, readings) in self.0.iter().filter(|(_, readings)| readings.len() >= 12) {
            let quarter = readings.len() / 4;
            let (early, late) = (&readings[quarter..][..quarter], &readings[3 * quarter..]);
            for (index, most) in MOST.iter().enumerate() {
                let least = |part: &[[u64; 2]]| part.iter().map(|reading| reading[index]).min();
                let allowed = least(early).map(|least| least + most);
                assert!(least(late) <= allowed, "{name} has grown: {readings:?}");
            }
        }
    }
}
