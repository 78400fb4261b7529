//! Threads on processors of their own choice.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};

static ALONE: Mutex<()> = Mutex::new(());

/// Held by a test that wants all processors for itself: those beside it in its binary wait.
pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps this thread on one processor; on those that there are, where there are fewer.
pub fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    // Not those that this thread may run on: it may have been here before.
    let there = aya::util::nr_cpus().unwrap();
    set.set(cpu % there).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}
