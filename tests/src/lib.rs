//! Shared parts of the black-box tests: hosts, packets, the program under a test's clock, a model beside it, and the
//! command.
//!
//! A helper that fails panics: its message is what the reader of a failed test needs.

pub mod af_xdp;
pub mod browser;
pub mod calls;
pub mod captures;
pub mod command;
pub mod constants;
pub mod container;
pub mod control;
pub mod cpus;
pub mod database;
pub mod effort;
pub mod engine;
pub mod exporter;
pub mod feeds;
pub mod files;
pub mod fleet;
pub mod foreign;
pub mod forms;
pub mod fuzz;
pub mod generations;
pub mod hosts;
pub mod interpreter;
pub mod largest;
pub mod model;
pub mod need;
pub mod newcomers;
pub mod objects;
pub mod oci;
pub mod offload;
pub mod packet;
pub mod pooler;
pub mod postgres;
pub mod probe;
pub mod processes;
pub mod proxy;
pub mod random;
pub mod raw;
pub mod recipes;
pub mod redis;
pub mod scenario;
pub mod schema;
pub mod screen;
pub mod sentinel;
pub mod service;
pub mod steps;
pub mod store;
pub mod test_run;
pub mod testbed;
pub mod traffic;
pub mod trials;
pub mod tun;
pub mod watcher;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use limiter_config::{Settings, file};

/// The settings of a configuration file with this text.
pub fn settings(text: &str) -> Settings {
    let parsed = file::parse(text, ".".as_ref());
    let parsed = parsed.unwrap_or_else(|mistakes| panic!("{:?}: {text}", mistakes.first()));
    parsed.settings
}

/// Sets a flag when dropped, even after a failure.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for `condition`: the kernel and other programs do some things at their own pace, and the machine may be busy.
/// Tests that promise a time measure it themselves.
///
/// Pauses for four times as long as `condition` takes. Many conditions run a command: asked without such a pause, they
/// would take most of a processor, and delay what they wait for.
pub fn eventually(awaited: &str, mut condition: impl FnMut() -> bool) {
    const PATIENCE: Duration = Duration::from_secs(60);
    const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
    let start = Instant::now();
    loop {
        let asked = Instant::now();
        if condition() {
            return;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {awaited}"
        );
        thread::sleep((asked.elapsed() * 4).clamp(PAUSES[0], PAUSES[1]));
    }
}

/// Instructions that the verifier has processed; Linux 5.16 and later report it.
pub fn verified_instructions(program: &limiter_kernel::program::object::Program) -> Option<u32> {
    verified_instructions_of(program.fd().unwrap())
}

/// Instructions that the verifier has processed for the program with this descriptor.
pub fn verified_instructions_of(program: impl std::os::fd::AsFd) -> Option<u32> {
    program_fact(program, "verified_insns:")
}

/// The number after `name` in the kernel's facts about the program with this descriptor.
pub fn program_fact(program: impl std::os::fd::AsFd, name: &str) -> Option<u32> {
    use std::os::fd::AsRawFd;
    let fd = program.as_fd().as_raw_fd();
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.map(|line| line.trim().parse().unwrap())
}

/// A whole number of a JSON document.
pub fn number(value: &serde_json::Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("a number was wanted: {value}"))
}
