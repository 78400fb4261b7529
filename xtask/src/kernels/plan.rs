//! Which tests run in the virtual machines.
//!
//! Under emulation a program is loaded in seconds, not in milliseconds, and a CPU may stand still for as long. So of each
//! part the tests that need its kernel most are run, and none that waits for the clock of the wall.

/// The tests of one file.
pub struct Target {
    /// The name of the file in `tests/tests`.
    pub name: &'static str,
    /// What is tested, in the words of the table.
    pub about: &'static str,
    /// Those that run; all of them where none is named.
    pub only: &'static [&'static str],
}

const fn target(name: &'static str, about: &'static str, only: &'static [&'static str]) -> Target {
    Target { name, about, only }
}

/// What runs on every supported kernel, in this order.
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

/// What runs the tests, for the shell: of each target what it prints and how it ends. `folder` is where the tests of the
/// repository are, `seconds` what a target may take.
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

/// The name of what is tried on a kernel that limiter does not run on.
pub const REFUSAL: &str = "refusal";

/// Tries to attach there, for the shell.
pub fn refusal_script() -> String {
    format!(
        "echo \"=== target {REFUSAL}\"\n\
         /bin/limiter attach lo --rate 5 --burst 10\n\
         echo \"=== exit $?\"\n"
    )
}
