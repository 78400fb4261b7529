//! Lists the steps of a packet's path. The programs are in `limiter-ebpf/src/bin/bench/steps.rs`.

/// A program that takes some steps of a packet's path.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub program: &'static str,
    /// The step that it adds to the previous program.
    pub adds: &'static str,
    /// True if the program drops packets in any state of the bucket.
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
