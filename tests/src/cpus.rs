//! Pins threads to processors, and runs work on two at one time.

use std::{fs::File, sync::Barrier, thread};

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

/// Runs `work` on two processors at one time, with the number of each. Returns both results.
pub fn on_two<T: Send>(work: impl Fn(usize) -> T + Sync) -> [T; 2] {
    thread::scope(|scope| {
        let threads = [0, 1].map(|cpu| {
            let work = &work;
            scope.spawn(move || {
                pin_to(cpu);
                work(cpu)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

/// Runs `work` on two processors, with the numbers of processor and round. They wait for each other before each round.
/// Returns both results of each round.
pub fn in_rounds<T: Send>(rounds: usize, work: impl Fn(usize, usize) -> T + Sync) -> Vec<[T; 2]> {
    let barrier = Barrier::new(2);
    let [first, two] = on_two(|cpu| {
        let meet = |round| {
            barrier.wait();
            work(cpu, round)
        };
        (0..rounds).map(meet).collect::<Vec<_>>()
    });
    first
        .into_iter()
        .zip(two)
        .map(|(first, two)| [first, two])
        .collect()
}
