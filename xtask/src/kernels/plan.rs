//! Which tests run in the virtual machines, and why others do not.
//!
//! Under emulation an instruction takes some hundred times as long as elsewhere, and a CPU may stand still for many
//! milliseconds. Tests that fail for that alone are left out, each with its reason.

/// The tests of one file.
pub struct Target {
    /// The name of the file in `tests/tests`.
    pub name: &'static str,
    /// What is tested, in the words of the table.
    pub about: &'static str,
    /// Tests that are left out, and why.
    pub without: &'static [(&'static str, &'static str)],
}

/// Why whole files of tests are not among the targets.
pub const OUTSIDE: &str = "Not run there: what needs programs that the small image does not have (systemd, a browser, \
tmux, bpftool's own\nprograms), and floods that have to be of a certain speed. \
In the files that are run, under emulation:";

const fn all(name: &'static str, about: &'static str) -> Target {
    Target {
        name,
        about,
        without: &[],
    }
}

/// What runs on every supported kernel, in this order.
pub const TARGETS: [Target; 14] = [
    all("verifier", "every entry is loaded"),
    all("object", "libbpf loads the objects"),
    all("lifecycle", "attach to veth, native and generic; detach"),
    all("worked_examples", "exactness"),
    all("malformed", "malformed packets"),
    all("several", "several limits"),
    all("nested", "nested limits"),
    all("lists", "lists"),
    all("large", "32 limits, 100,000 prefixes"),
    all("keys", "keys; jumbo frames"),
    all("store", "the table from empty to full"),
    all("two_cpus", "two CPUs on one source"),
    all("watch", "events"),
    all("replay", "replay in the kernel"),
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
        let skips: String = target
            .without
            .iter()
            .map(|(test, _)| format!(" --skip {test}"))
            .collect();
        script += &format!("target {}{skips}\n", target.name);
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
