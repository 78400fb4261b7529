//! Runs the test programs, several at once. Mostly they wait: for clocks, for a rate limit, for the kernel.
//!
//! No documentation has examples that run: for them, rustdoc would build each crate once more.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use tempfile::NamedTempFile;

use crate::{
    artifacts,
    process::{cargo, in_parallel, output, progress, run},
    suites::{self, Suite},
    summary::{Report, Summary},
    times,
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

/// Builds the test programs and the command: all, or the programs with the modules `names`. The slow suites are the
/// first ones.
pub fn build(names: &[String]) -> Result<Vec<Suite>> {
    suites::check()?;
    let mut build = cargo();
    build.args(["test", "--workspace", "--locked", "--no-run"]);
    let names = names.iter().map(|name| suites::split(name).0);
    let roots: Result<BTreeSet<_>> = names.map(suites::program_of).collect();
    // The programs of other packages are built all together.
    let roots = roots.unwrap_or_default();
    let tests = roots
        .iter()
        .chain((!roots.is_empty()).then_some(&suites::WITH_THE_COMMAND));
    build.args(tests.flat_map(|root| ["--test", root]));
    let mut programs = artifacts::build(&mut build)?;
    programs.retain(|program| program.profile.test);
    let mut suites = Suite::all_of(programs)?;
    // Suites that are not named keep cargo's order.
    suites.sort_by_key(|suite| {
        let position = LONG.split(' ').position(|name| suite.name == name);
        position.unwrap_or(usize::MAX)
    });
    Ok(suites)
}

/// Runs the tests. Runs failed ones again, alone. `quick`: skips the slow programs, and those that run after all
/// others.
pub fn run_all(suites: &[Suite], quick: bool, prepare: Prepare) -> Result<Summary> {
    for name in [LAST, LONG, PROMPT]
        .into_iter()
        .flat_map(|names| names.split(' '))
    {
        if !suites.iter().any(|suite| suite.name == name) {
            bail!("there is no test program {name}: correct its name in xtask/src/lanes.rs");
        }
    }
    let runner = Runner::new(prepare);
    let is_last = |suite: &&Suite| is_among(suite, LAST);
    let (last, mut first): (Vec<_>, Vec<_>) = suites.iter().partition(is_last);
    if quick {
        first.retain(|suite| !is_among(suite, LONG));
    }
    let mut results = runner.run_all(first, LANES)?;
    if !quick {
        results.extend(runner.run_all(last, 1)?);
    }
    runner.summarize(&results)
}

/// Runs the suites with these names, `NAME` or `NAME::TEST`, one after the other, with their output on the terminal.
/// `arguments` are those of the test programs.
pub fn run_named(
    suites: &[Suite],
    names: &[String],
    arguments: &[OsString],
    prepare: Prepare,
) -> Result<ExitCode> {
    let runner = Runner::new(prepare);
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let (name, part) = suites::split(name);
        let mut found = suites.iter().filter(|suite| suite.name == name).peekable();
        if found.peek().is_none() {
            bail!(
                "no test program is called {name}: tests/tests has a file or a folder for each; unit tests have their package's name"
            );
        }
        for suite in found {
            let mut command = runner.command(suite, times::PLAIN);
            suite.select(&mut command, part)?;
            if run(command.args(arguments)).is_err() {
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// Runs suites of modules at once. Returns each test, and true if it passed, if need be when it ran again, alone.
pub fn each_test(suites: &[Suite], prepare: Prepare) -> Result<Vec<(String, bool)>> {
    let runner = Runner::new(prepare);
    let reports = runner.run_all(suites.iter().collect(), LANES)?;
    let mut tests = Vec::new();
    for (suite, report) in reports {
        tests.extend(report.good.into_iter().map(|test| (test, true)));
        for test in report.failures {
            // A program that ended early does not say which of its tests did not run.
            let passed = match &test {
                Some(_) => runner.run(suite, test.as_deref())?.is_success(),
                None => false,
            };
            tests.push((test.unwrap_or_else(|| suite.name.clone()), passed));
        }
    }
    Ok(tests)
}

fn is_among(suite: &Suite, names: &str) -> bool {
    names.split(' ').any(|name| suite.name == name)
}

/// A runner of suites.
struct Runner<'a> {
    own_pins: bool,
    prepare: Prepare<'a>,
}

/// Gives a command new mounts, and the shell commands that then mount a new bpffs.
const OWN_MOUNTS: [&str; 2] = ["unshare", "--mount"];
const OWN_PINS: &str = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && ";

impl<'a> Runner<'a> {
    fn new(prepare: Prepare<'a>) -> Self {
        let mut attempt = Command::new(OWN_MOUNTS[0]);
        attempt.args(&OWN_MOUNTS[1..]).args(["sh", "-c"]);
        let own_pins = output(attempt.arg(format!("{OWN_PINS} true"))).is_ok();
        Self { own_pins, prepare }
    }

    fn run_all<'s>(
        &self,
        suites: Vec<&'s Suite>,
        lanes: usize,
    ) -> Result<Vec<(&'s Suite, Report)>> {
        in_parallel(lanes, suites, |suite| Ok((suite, self.run(suite, None)?)))
    }

    /// Runs a suite, or one of its tests. Prints the output after it has ended.
    fn run(&self, suite: &Suite, test: Option<&str>) -> Result<Report> {
        let name = &suite.source;
        progress(&format!("testing {name} {}", test.unwrap_or_default()));
        let began = Instant::now();
        // A file instead of a pipe: a leftover process of a test would hold a pipe open.
        let file = NamedTempFile::new().context("no temporary file: set TMPDIR")?;
        let mut command = self.command(suite, times::MEASURED);
        match test {
            Some(test) => command.args(["--exact", test]),
            None => suite.select(&mut command, None)?,
        };
        let printed = file.reopen()?;
        command.stdout(printed.try_clone()?).stderr(printed);
        let status = command.status();
        let status = status.with_context(|| format!("cannot start the tests of {name}"))?;
        let bytes = fs::read(file.path())?;
        let printed = String::from_utf8_lossy(&bytes);
        let (printed, processor) = times::split(&printed);
        let seconds = began.elapsed().as_secs_f32();
        // One call, so that no other lane prints in between.
        println!(
            "\n=== {name}\n{printed}=== {name}: {status}, {seconds:.1} s, {processor:.1} s of processor time"
        );
        Ok(Report {
            processor,
            ..Report::of(status, printed)
        })
    }

    /// The command of a suite, without arguments. If the machine allows it, each has its own bpffs: some tests clear
    /// the pins of removed interfaces, and others look for such pins. `run` are the shell commands that run it.
    fn command(&self, suite: &Suite, run: &str) -> Command {
        let is_prompt = is_among(suite, PROMPT);
        // Without the right to do so, `nice` changes nothing and says so.
        let niceness = if is_prompt { PROMPT_NICENESS } else { "0" };
        let mut command = Command::new("nice");
        command.args(["-n", niceness]);
        let pins = if self.own_pins { OWN_PINS } else { "" };
        if self.own_pins {
            command.args(OWN_MOUNTS);
        }
        command.args(["sh", "-c", &format!("{pins}{run}")]);
        suite.complete(&mut command);
        if is_prompt {
            command.env("RUST_TEST_THREADS", PROMPT_THREADS);
        }
        (self.prepare)(&mut command);
        command
    }

    /// Adds up the results, and runs failed tests again. A test that passes then is flaky.
    fn summarize(&self, results: &[(&Suite, Report)]) -> Result<Summary> {
        let mut summary = Summary::default();
        for (suite, report) in results {
            summary.passed += report.passed;
            let time = (suite.source.clone(), report.processor);
            summary.times.push(time);
            for test in &report.failures {
                let test = test.as_deref();
                let name = format!("{}: {}", suite.source, test.unwrap_or("the whole program"));
                if self.run(suite, test)?.is_success() {
                    summary.flaky.push(name);
                } else {
                    summary.failed.push(name);
                }
            }
        }
        Ok(summary)
    }
}
