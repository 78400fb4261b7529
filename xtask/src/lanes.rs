//! Runs the test programs, several at once. Mostly they wait: for clocks, for a rate limit, for the kernel.
//!
//! No documentation has examples that run: for them, rustdoc would build each crate once more.

use std::{fs, process::Command, time::Instant};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use crate::{
    artifacts::{self, Program},
    paths,
    process::{cargo, in_parallel, output, progress},
    summary::{Report, Summary},
};

/// Number of programs that run at once. Each has as many threads as there are processors, apart from [`PROMPT`] ones. All of
/// them wait for more than half of their time, and most of them for nearly all of it.
const LANES: usize = 6;

/// The slow programs, longest first, so that nothing waits for them at the end. `--quick` skips them.
const LONG: &str = "fleet fleet_hosts_postgres bench faults notify trial package model chain fleet_postgres bans \
    configurations cookbook replace replay live_change runbook crowdsec forms established merged export lists set \
    all fleet_store fleet_valkey fleet_lists config_file feeds drivers tc instructions adaptive soak table_model demo";

/// Programs whose tests promise seconds, or milliseconds. They mostly wait, so each has this many threads; and the
/// scheduler lets them run before the others, which keep the processors busy.
const PROMPT: &str = "adaptive chain fleet fleet_hosts_postgres fleet_lists fleet_postgres fleet_store fleet_valkey \
    notify pacing runbook second_chance trial";
const PROMPT_THREADS: &str = "3";
const PROMPT_NICENESS: &str = "-10";

/// The programs that run after all others, one by one. Two threads on two processors meet at a barrier thousands of
/// times. Beside other programs, each would wait for its processor there.
const LAST: &str = "nested store_races two_cpus";

/// Completes each command before it runs.
pub type Prepare<'a> = &'a (dyn Fn(&mut Command) + Sync);

/// Builds the test programs and the command. The slow programs are the first ones.
pub fn build() -> Result<Vec<Program>> {
    let mut build = cargo();
    build.args(["test", "--workspace", "--locked", "--no-run"]);
    let mut programs = artifacts::build(&mut build)?;
    programs.retain(|program| program.profile.test);
    for name in [LAST, LONG, PROMPT]
        .into_iter()
        .flat_map(|names| names.split(' '))
    {
        if !programs.iter().any(|program| is_of(program, name)) {
            bail!("there is no test program {name}: correct its name in xtask/src/lanes.rs");
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
        own_pins: output(Command::new(OWN_PINS[0]).args(&OWN_PINS[1..]).arg("true")).is_ok(),
        prepare,
    };
    let is_last = |program: &&Program| is_one_of(program, LAST);
    let (last, mut first): (Vec<_>, Vec<_>) = programs.iter().partition(is_last);
    if quick {
        first.retain(|program| !is_one_of(program, LONG));
    }
    let mut results = runner.run_all(first, LANES)?;
    if !quick {
        results.extend(runner.run_all(last, 1)?);
    }
    runner.summarize(&results)
}

/// The start of a command that runs a program, the next argument, with a new bpffs.
const OWN_PINS: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && exec \"$0\" \"$@\"",
];

/// True if the program is `tests/NAME.rs` of a package, or the folder of that name.
fn is_of(program: &Program, name: &str) -> bool {
    let files = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
    files.iter().any(|file| program.source().ends_with(file))
}

fn is_one_of(program: &Program, names: &str) -> bool {
    names.split(' ').any(|name| is_of(program, name))
}

/// The path of the program's source in the repository.
fn name(program: &Program) -> String {
    let path = program.source().strip_prefix(paths::root());
    path.unwrap_or(program.source()).display().to_string()
}

/// A runner of programs.
struct Runner<'a> {
    own_pins: bool,
    prepare: Prepare<'a>,
}

impl Runner<'_> {
    fn run_all<'p>(
        &self,
        programs: Vec<&'p Program>,
        lanes: usize,
    ) -> Result<Vec<(&'p Program, Report)>> {
        in_parallel(lanes, programs, |program| {
            Ok((program, self.run(program, None)?))
        })
    }

    /// Runs a program, or one of its tests. Prints the output after it has ended.
    fn run(&self, program: &Program, test: Option<&str>) -> Result<Report> {
        let name = name(program);
        progress(&format!("testing {name} {}", test.unwrap_or_default()));
        let began = Instant::now();
        // A file instead of a pipe: a leftover process of a test would hold a pipe open.
        let file = NamedTempFile::new().context("no temporary file: set TMPDIR")?;
        let mut command = self.command(program, test);
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

    /// The command of a program. If the machine allows it, each program has its own bpffs: some tests clear the pins of
    /// removed interfaces, and others look for such pins.
    fn command(&self, program: &Program, test: Option<&str>) -> Command {
        let is_prompt = is_one_of(program, PROMPT);
        // Without the right to do so, `nice` changes nothing and says so.
        let niceness = if is_prompt { PROMPT_NICENESS } else { "0" };
        let mut command = Command::new("nice");
        command.args(["-n", niceness]);
        if self.own_pins {
            command.args(OWN_PINS);
        }
        command.arg(&program.file);
        program.set_folder(&mut command);
        command.args(test.into_iter().flat_map(|test| ["--exact", test]));
        if is_prompt {
            command.env("RUST_TEST_THREADS", PROMPT_THREADS);
        }
        (self.prepare)(&mut command);
        command
    }

    /// Adds up the results, and runs failed tests again. A test that passes then is flaky.
    fn summarize(&self, results: &[(&Program, Report)]) -> Result<Summary> {
        let mut summary = Summary::default();
        for (program, report) in results {
            summary.passed += report.passed;
            for test in &report.failures {
                let test = test.as_deref();
                let name = format!("{}: {}", name(program), test.unwrap_or("the whole program"));
                if self.run(program, test)?.is_success() {
                    summary.flaky.push(name);
                } else {
                    summary.failed.push(name);
                }
            }
        }
        Ok(summary)
    }
}
