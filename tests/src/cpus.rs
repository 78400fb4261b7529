//! Threads on processors of their own choice.

use std::fs::File;

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

/// Held by a test that wants all processors for itself: such tests wait for each other, also those of other programs.
#[must_use]
pub fn alone() -> File {
    // Any file will do that is there wherever tests run.
    let file = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures")).unwrap();
    file.lock().unwrap();
    file
}

/// Keeps this thread on one processor; on those that there are, where there are fewer.
pub fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    // Not those that this thread may run on: it may have been here before.
    let there = aya::util::nr_cpus().unwrap();
    set.set(cpu % there).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}
