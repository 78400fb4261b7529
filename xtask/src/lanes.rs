//! The programs of the tests, several at once: mostly they wait, for clocks, for a time limit, for the kernel.

use std::{
    io::{Read, Seek},
    path::Path,
    process::{Command, ExitStatus},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::{
    artifacts::{self, Program},
    paths,
    process::{cargo, output, progress},
};

/// How many programs run at once. Each has threads of its own, as many as there are processors, and one of the longest
/// ones keeps a processor busy.
const LANES: usize = 2;

/// The programs that take longest, which are begun first: what is begun last is what all wait for.
const LONG: [&str; 10] = [
    "changes", "faults", "model", "export", "package", "bench", "kill", "demo", "soak", "upgrade",
];

/// The programs that have the machine for themselves, one after the other when all others are done.
///
/// `fleet` asserts what a fleet promises within seconds, of agents that answer in time. In the others two threads on two
/// processors meet at a barrier thousands of times: beside others each would wait for its processor there.
const ALONE: [&str; 4] = ["fleet", "nested", "store_races", "two_cpus"];

/// A part of the tests.
struct Part {
    name: String,
    command: Command,
}

/// The tests, built.
pub struct Tests(Vec<Program>);

impl Tests {
    /// Builds them, and with them the command.
    pub fn build() -> Result<Self> {
        let mut build = cargo();
        build.args(["test", "--workspace", "--locked", "--no-run"]);
        let mut programs = artifacts::build(&mut build)?;
        programs.retain(|program| program.is_test);
        for name in ALONE.iter().chain(&LONG) {
            if !programs.iter().any(|program| is_of(program, name)) {
                bail!("there is no tests/tests/{name}: correct its name in xtask/src/lanes.rs");
            }
        }
        // Those that are not named keep cargo's order.
        programs.sort_by_key(|program| {
            LONG.iter()
                .position(|name| is_of(program, name))
                .unwrap_or(LONG.len())
        });
        Ok(Self(programs))
    }

    /// Runs them; each command is finished by `prepare`. Unless it is to `keep_going`, nothing is begun after a failure.
    /// Returns whether all is well.
    pub fn run(&self, keep_going: bool, prepare: impl Fn(&mut Command)) -> Result<bool> {
        let own_pins = output(&mut with_own_pins(Path::new("true"))).is_ok();
        let part = |program: &Program| {
            let mut command = command(program, own_pins);
            prepare(&mut command);
            Part {
                name: name(program),
                command,
            }
        };
        let is_alone = |program: &&Program| ALONE.iter().any(|name| is_of(program, name));
        let (alone, beside): (Vec<_>, Vec<_>) = self.0.iter().partition(is_alone);
        let mut documentation = documentation();
        prepare(&mut documentation.command);
        let beside = beside.into_iter().map(part).chain([documentation]);
        let mut failed = run_all(beside.collect(), LANES, keep_going)?;
        if keep_going || failed.is_empty() {
            failed.extend(run_all(
                alone.into_iter().map(part).collect(),
                1,
                keep_going,
            )?);
        }
        for failure in &failed {
            println!("=== FAILED: {failure}");
        }
        Ok(failed.is_empty())
    }
}

/// The examples in the documentation.
fn documentation() -> Part {
    let mut command = cargo();
    command.args(["test", "--workspace", "--locked", "--doc", "--no-fail-fast"]);
    Part {
        name: "documentation".to_owned(),
        command,
    }
}

/// Runs a program, where this machine lets us with a bpffs of its own: some tests clear what is left of interfaces that
/// are gone, whosever they were, and others look at what is left.
fn command(program: &Program, own_pins: bool) -> Command {
    let mut command = if own_pins {
        with_own_pins(&program.file)
    } else {
        Command::new(&program.file)
    };
    program.lend_package(&mut command);
    command
}

/// The command that runs a program with a bpffs of its own.
fn with_own_pins(program: &Path) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", OWN_PINS]);
    unshare.arg(program);
    unshare
}

/// Becomes the program that is named, with a bpffs of its own.
const OWN_PINS: &str = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && exec \"$0\"";

/// Whether it is the program of `tests/tests/NAME.rs` or of the folder of that name.
fn is_of(program: &Program, name: &str) -> bool {
    program.name == name
        && program
            .source
            .starts_with(paths::root().join("tests/tests"))
}

/// The path of its source in the repository.
fn name(program: &Program) -> String {
    let path = program.source.strip_prefix(paths::root());
    path.unwrap_or(&program.source).display().to_string()
}

/// Runs them all, so many at once. Returns what failed.
fn run_all(parts: Vec<Part>, lanes: usize, keep_going: bool) -> Result<Vec<String>> {
    let waiting = Mutex::new(parts.into_iter());
    let failed = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let lane = || -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            // Taken in a statement of its own: the lock must not be held while the program runs.
            let next = waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next();
            let Some(mut part) = next else { break };
            let failures = part.run()?;
            if !failures.is_empty() && !keep_going {
                stop.store(true, Ordering::Relaxed);
            }
            failed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(failures);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| {
            lane.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    Ok(failed.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Part {
    /// Runs it, and prints then what it has printed. Returns what failed.
    fn run(&mut self) -> Result<Vec<String>> {
        let name = &self.name;
        progress(&format!("testing {name}"));
        let began = Instant::now();
        // No pipe: what a test has started and left behind would hold its other end.
        let mut printed = tempfile::tempfile().context("no temporary file: set TMPDIR")?;
        self.command.stdout(printed.try_clone()?);
        self.command.stderr(printed.try_clone()?);
        let status = self.command.status();
        let status = status.with_context(|| format!("cannot start the tests of {name}"))?;
        let mut bytes = Vec::new();
        printed.rewind()?;
        printed.read_to_end(&mut bytes)?;
        let printed = String::from_utf8_lossy(&bytes);
        let seconds = began.elapsed().as_secs_f32();
        // In one call: the lines of others do not come between them.
        println!("\n=== {name}\n{printed}=== {name}: {status}, {seconds:.1} s");
        Ok(failures(name, status, &printed))
    }
}

/// What failed of a part, for people: its tests, and how it ended where tests do not end so.
fn failures(name: &str, status: ExitStatus, printed: &str) -> Vec<String> {
    /// How a program of tests ends of which some have failed.
    const SOME_FAILED: Option<i32> = Some(101);
    if status.success() {
        return Vec::new();
    }
    let failed = printed
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let mut failures: Vec<_> = failed.map(|test| format!("{name}: {test}")).collect();
    if failures.is_empty() || status.code() != SOME_FAILED {
        failures.push(format!("{name}: {status}"));
    }
    failures
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    use super::failures;

    #[test]
    fn whatever_fails_is_named() {
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let printed = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\ntest d ... FAILED\n";
        assert_eq!(failures("x", exit(0), printed), [""; 0]);
        assert_eq!(failures("x", exit(101), printed), ["x: b::c", "x: d"]);
        assert_eq!(failures("x", exit(1), ""), ["x: exit status: 1"]);
        let killed = ExitStatus::from_raw(9);
        assert_eq!(
            failures("x", killed, "test a ... ok\n"),
            ["x: signal: 9 (SIGKILL)"]
        );
    }
}
