//! Pins threads to processors.

use std::fs::File;

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

/// A lock for tests that need all processors: they wait for each other, even across test programs.
pub fn alone() -> File {
    // Any file that exists on every test machine.
    let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures")).unwrap();
    file.lock().unwrap();
    file
}

/// Keeps this thread on one processor. Numbers beyond the last processor wrap.
pub fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    // Counts all processors, because this thread may have been pinned before.
    let there = aya::util::nr_cpus().unwrap();
    set.set(cpu % there).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}
