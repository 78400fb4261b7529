//! The steps of a packet's path, which the programs of `limiter-ebpf/src/bin/bench/steps.rs` take one by one.

/// A program that takes some steps of a packet's path.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its name.
    pub program: &'static str,
    /// The step that it adds to the previous program.
    pub adds: &'static str,
    /// True if it drops whatever the bucket's state.
    pub drops: bool,
}

const fn step(program: &'static str, adds: &'static str, drops: bool) -> Step {
    Step {
        program,
        adds,
        drops,
    }
}

/// The packet's path, from the shortest program to the one that takes all steps.
pub const STEPS: [Step; 6] = [
    step("step_parse", "parse, to the key", true),
    step("step_clock", "clock", true),
    step("step_lookup", "lookup", true),
    step("step_bucket", "bucket", false),
    step("step_source", "source's counters", false),
    step("step_counters", "interface's counters", false),
];
