//! Runs the test programs, several at once. Mostly they wait: for clocks, for a rate limit, for the kernel.

use std::{fs, path::Path, process::Command, time::Instant};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use crate::{
    artifacts::{self, Program},
    paths,
    process::{cargo, in_parallel, output, progress},
    summary::{Report, Summary},
};

/// Number of programs that run at once. Each has as many threads as there are processors, apart from [`LAST`]. Most of
/// them wait, for example `trial` and `runbook`. `faults` and `model` keep a processor busy each.
const LANES: usize = 4;

/// The slow programs. They start first, so that nothing waits for them at the end. `--quick` skips them.
const LONG: &str = "faults package trial bench notify chain model fleet_postgres export demo soak configurations replay \
    top_live set lists watch fuzz_corpus";

/// The programs that run after all others, how many of them at once, and the number of threads of each.
///
/// The first ones test promises about seconds, with agents that answer in time. With three threads each, both together
/// keep two processors busy most of the time. In the others, two threads on two processors meet at a barrier thousands
/// of times. Beside other programs, each would wait for its processor there.
const LAST: [(&str, usize, &str); 2] = [
    ("fleet fleet_hosts_postgres", 2, "3"),
    ("nested store_races two_cpus", 1, "2"),
];

/// Completes each command before it runs.
pub type Prepare<'a> = &'a (dyn Fn(&mut Command) + Sync);

/// Builds the test programs and the command. The slow programs are the first ones.
pub fn build() -> Result<Vec<Program>> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--locked", "--no-run"]);
    let mut programs = artifacts::build(&mut build)?;
    programs.retain(|program| program.profile.test);
    let last = LAST.iter().flat_map(|(names, ..)| names.split(' '));
    for name in last.chain(LONG.split(' ')) {
        if !programs.iter().any(|program| is_of(program, name)) {
            bail!("there is no tests/tests/{name}: correct its name in xtask/src/lanes.rs");
        }
    }
    // Programs that are not named keep cargo's order.
    programs.sort_by_key(|program| {
        let position = LONG.split(' ').position(|name| is_of(program, name));
        position.unwrap_or(usize::MAX)
    });
    Ok(programs)
}

/// Runs the tests. Runs failed ones again, alone. `quick`: skips the slow programs, and those that run after all
/// others.
pub fn run(programs: &[Program], quick: bool, prepare: Prepare) -> Result<Summary> {
    let runner = Runner {
        own_pins: output(&mut with_own_pins(Path::new("true"))).is_ok(),
        prepare,
    };
    let mut first: Vec<_> = programs.iter().map(Some).collect();
    first.retain(|part| {
        part.is_some_and(|program| {
            let is_last = LAST.iter().any(|(names, ..)| is_one_of(program, names));
            !(is_last || quick && is_one_of(program, LONG))
        })
    });
    first.push(DOCUMENTATION);
    let mut results = runner.run_all(first, LANES)?;
    for (names, lanes, _) in LAST.into_iter().filter(|_| !quick) {
        let parts = programs.iter().filter(|program| is_one_of(program, names));
        results.extend(runner.run_all(parts.map(Some).collect(), lanes)?);
    }
    runner.summarize(&results)
}

/// The command that runs a program with its own bpffs.
fn with_own_pins(program: &Path) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", OWN_PINS]);
    unshare.arg(program);
    unshare
}

/// The shell script that mounts a new bpffs, then executes the program `$0`.
const OWN_PINS: &str = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && exec \"$0\" \"$@\"";

/// True if the program is `tests/tests/NAME.rs` or the folder of that name.
fn is_of(program: &Program, name: &str) -> bool {
    let folder = paths::root().join("tests/tests");
    program.name() == name && program.source().starts_with(folder)
}

fn is_one_of(program: &Program, names: &str) -> bool {
    names.split(' ').any(|name| is_of(program, name))
}

/// A part of the tests: a program, or the examples in the documentation.
type Part<'a> = Option<&'a Program>;

const DOCUMENTATION: Part = None;

/// The path of the part's source in the repository.
fn name(part: Part) -> String {
    let Some(program) = part else {
        return "documentation".to_owned();
    };
    let path = program.source().strip_prefix(paths::root());
    path.unwrap_or(program.source()).display().to_string()
}

/// A runner of parts.
struct Runner<'a> {
    own_pins: bool,
    prepare: Prepare<'a>,
}

impl Runner<'_> {
    fn run_all<'p>(&self, parts: Vec<Part<'p>>, lanes: usize) -> Result<Vec<(Part<'p>, Report)>> {
        in_parallel(lanes, parts, |part| Ok((part, self.run(part, None)?)))
    }

    /// Runs a part, or one of its tests. Prints the output after it has ended.
    fn run(&self, part: Part, test: Option<&str>) -> Result<Report> {
        let name = name(part);
        progress(&format!("testing {name} {}", test.unwrap_or_default()));
        let began = Instant::now();
        // A file instead of a pipe: a leftover process of a test would hold a pipe open.
        let file = NamedTempFile::new().context("no temporary file: set TMPDIR")?;
        let mut command = self.command(part, test);
        let printed = file.reopen()?;
        command.stdout(printed.try_clone()?).stderr(printed);
        let status = command.status();
        let status = status.with_context(|| format!("cannot start the tests of {name}"))?;
        let bytes = fs::read(file.path())?;
        let printed = String::from_utf8_lossy(&bytes);
        let seconds = began.elapsed().as_secs_f32();
        // One call, so that no other lane prints in between.
        println!("\n=== {name}\n{printed}=== {name}: {status}, {seconds:.1} s");
        Ok(Report::of(status, &printed))
    }

    /// The command of a part. If the machine allows it, each program has its own bpffs: some tests clear the pins of
    /// removed interfaces, and others look for such pins.
    fn command(&self, part: Part, test: Option<&str>) -> Command {
        let mut command = match part {
            Some(program) if self.own_pins => with_own_pins(&program.file),
            Some(program) => Command::new(&program.file),
            None => {
                let mut cargo = cargo();
                cargo.args(["test", "--workspace", "--locked", "--doc", "--no-fail-fast"]);
                cargo
            }
        };
        if let Some(program) = part {
            program.set_folder(&mut command);
            command.args(test.into_iter().flat_map(|test| ["--exact", test]));
            let group = LAST.iter().find(|(names, ..)| is_one_of(program, names));
            command.envs(group.map(|(.., threads)| ("RUST_TEST_THREADS", threads)));
        }
        (self.prepare)(&mut command);
        command
    }

    /// Adds up the results, and runs failed tests again. A test that passes then is flaky.
    fn summarize(&self, results: &[(Part, Report)]) -> Result<Summary> {
        let mut summary = Summary::default();
        for (part, report) in results {
            summary.passed += report.passed;
            for test in &report.failures {
                let test = test.as_deref();
                let name = format!("{}: {}", name(*part), test.unwrap_or("the whole program"));
                if self.run(*part, test)?.is_success() {
                    summary.flaky.push(name);
                } else {
                    summary.failed.push(name);
                }
            }
        }
        Ok(summary)
    }
}
