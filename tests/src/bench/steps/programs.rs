//! The steps of the packet's way, which the programs of `limiter-ebpf/src/bin/bench/steps.rs` go one by one.

/// A program that goes some steps of the packet's way.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its name.
    pub program: &'static str,
    /// What it does that the one before does not.
    pub adds: &'static str,
    /// Whether it drops whatever the bucket says.
    pub drops: bool,
}

const fn step(program: &'static str, adds: &'static str, drops: bool) -> Step {
    Step {
        program,
        adds,
        drops,
    }
}

/// The packet's way, from the shortest program to the one that goes all of it.
pub const STEPS: [Step; 6] = [
    step("step_parse", "parse, to the key", true),
    step("step_clock", "clock", true),
    step("step_lookup", "lookup", true),
    step("step_bucket", "bucket", false),
    step("step_source", "source's counters", false),
    step("step_counters", "interface's counters", false),
];
