//! The state that all parts of the soak share.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use limiter_tests::{command::Outcome, exporter::Exporter, files::Folder, hosts::Hosts};

use super::{memory::Memory, wire::Wire};

/// Duration and load.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Duration of traffic and commands.
    pub duration: Duration,
    /// Packets per second from each of two processors, approximately.
    pub packets_per_second: u32,
    /// Pause between two commands.
    pub pause: Duration,
}

/// State shared by all parts.
#[derive(Debug)]
pub struct Soak<'h> {
    pub plan: Plan,
    pub hosts: &'h Hosts,
    pub folder: Folder,
    pub exporter: Exporter<'h>,
    pub wire: Wire,
    pub memory: Mutex<Memory>,
    pub done: Mutex<BTreeMap<String, u64>>,
    pub began: Instant,
    pub stop: AtomicBool,
}

impl Soak<'_> {
    /// True if the soak continues.
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && self.began.elapsed() < self.plan.duration
    }

    /// Counts an action.
    pub fn count(&self, operation: &str) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done.entry(operation.to_owned()).or_default() += 1;
    }

    pub fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while self.goes_on() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20).min(time));
        }
    }

    /// Runs `limiter` on the server. Repeats the command while other tests hold the machine's lock for too long.
    pub fn ask(&self, line: &str) -> Outcome {
        const LOCKED: &str = "another limiter command has held the lock";
        self.count(line.split(' ').next().unwrap_or_default());
        loop {
            let outcome = self.hosts.limiter(line);
            if outcome.status != 1 || !outcome.stderr.contains(LOCKED) || !self.goes_on() {
                return outcome;
            }
        }
    }

    /// Runs a command that must succeed.
    pub fn limiter(&self, line: &str) -> String {
        let outcome = self.ask(line);
        outcome.expect(0);
        outcome.stdout
    }
}
