//! The tests that run in the virtual machines.
//!
//! Under emulation, a program is loaded in seconds, not in milliseconds, and a CPU may stand still for as long. So
//! only the tests that depend most on the kernel are run, and none that depends on wall-clock time.

/// A test file with its tests to run.
pub struct Target {
    /// Name of the file in `tests/tests`.
    pub name: &'static str,
    /// Description for the table.
    pub about: &'static str,
    /// The tests to run; all if empty.
    pub only: &'static [&'static str],
}

const fn target(name: &'static str, about: &'static str, only: &'static [&'static str]) -> Target {
    Target { name, about, only }
}

/// The targets for every supported kernel, in this order.
pub const TARGETS: [Target; 14] = [
    target("verifier", "every entry is loaded", &[]),
    target("object", "libbpf loads the objects", &[]),
    target(
        "lifecycle",
        "attach to veth, native and generic; detach",
        &[
            "modes_are_what_they_are_said_to_be",
            "detach_leaves_no_program_map_link_or_pin",
        ],
    ),
    target(
        "worked_examples",
        "exactness",
        &[
            "example_2_burst_is_credit_not_a_hole",
            "example_3_tokens_left_after_each_packet",
            "example_7_the_clock_reads_earlier",
            "example_8_cost_by_bytes",
            "example_11_a_fixed_window",
            "the_clock_may_wrap_in_the_middle",
        ],
    ),
    target("malformed", "malformed packets", &[]),
    target("several", "several limits", &[]),
    target("nested", "nested limits", &["a_flood_from_two_cpus"]),
    target(
        "lists",
        "lists",
        &[
            "the_longest_prefix_decides_and_is_counted",
            "tiers_decide_which_limit_holds_a_source",
        ],
    ),
    target(
        "large",
        "32 limits, 100,000 prefixes",
        &["it_loads_far_below_what_the_verifier_takes_and_finds_the_right_list"],
    ),
    target("keys", "jumbo frames", &["jumbo_frames"]),
    target(
        "store",
        "the table",
        &["sources_of_one_set_have_buckets_of_their_own"],
    ),
    target(
        "two_cpus",
        "two CPUs on one source",
        &["example_10_one_token_for_two_cpus"],
    ),
    target(
        "watch",
        "events",
        &["what_one_limit_drops", "what_several_limits_and_lists_drop"],
    ),
    target(
        "replay",
        "replay in the kernel",
        &[
            "published_figures_come_out",
            "on_captures_of_others_both_say_the_same",
        ],
    ),
];

/// The shell script that runs the tests, and prints each target's output and exit status. `folder`: the folder of the
/// repository's tests. `seconds`: the timeout of a target.
pub fn script(folder: &str, seconds: u32) -> String {
    let mut script = format!(
        "cd {folder}\n\
         export LIMITER_STRICT=1 LIMITER_BINARY=/bin/limiter RUST_BACKTRACE=0\n\
         target() {{\n    name=$1\n    shift\n    echo \"=== target $name\"\n    \
         timeout {seconds} /targets/$name --test-threads=1 --show-output --exact \"$@\"\n    \
         echo \"=== exit $?\"\n}}\n"
    );
    for target in &TARGETS {
        script += &format!("target {} {}\n", target.name, target.only.join(" "));
    }
    script
}

/// Name of the test on a kernel that limiter does not support.
pub const REFUSAL: &str = "refusal";

/// The shell script that tries to attach on such a kernel.
pub fn refusal_script() -> String {
    format!(
        "echo \"=== target {REFUSAL}\"\n\
         /bin/limiter attach lo --rate 5 --burst 10\n\
         echo \"=== exit $?\"\n"
    )
}
