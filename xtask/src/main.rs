//! Developer commands: `cargo xtask VERB`. One file a verb.

#![forbid(unsafe_code)]

mod apt;
mod artifacts;
mod compile;
mod debian;
mod deny;
mod digest;
mod dist;
mod documents;
mod flags;
mod fuzz;
mod import_rules;
mod imports;
mod install;
mod kernels;
mod lanes;
mod lint;
mod miri;
mod modules;
mod mutations;
mod names;
mod objects;
mod paths;
mod prebuilt;
mod process;
mod processors;
mod record;
mod run;
mod rustc_wrapper;
mod stores;
mod suites;
mod summary;
mod test;
mod times;
mod toolchain;
mod tools;
mod unsafe_code;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// Developer commands of limiter.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compile the BPF programs into limiter-ebpf/prebuilt, and record their sources and tools
    BuildEbpf {
        /// Change nothing; fail if the sources do not make the committed objects
        #[arg(long)]
        check: bool,
        /// Install the pinned compiler and linker if they are missing, and compare every byte; without it, only hashes
        /// are compared if the tools are missing
        #[arg(long, requires = "check")]
        strict: bool,
    },
    /// Run all tests, after a check of the objects' hashes, or those with these names; list the tests that could not run
    Test {
        /// Run only these test programs, files or folders in tests/tests; with ::TEST, only tests with this in their names
        #[arg(value_name = "NAME[::TEST]", conflicts_with_all = ["kernels", "quick"])]
        names: Vec<String>,
        /// Fail if a test cannot run on this machine (default on build servers, where CI=true)
        #[arg(long)]
        strict: bool,
        /// Leave out slow tests and those that run last; takes a minute
        #[arg(long, conflicts_with_all = ["kernels", "args"])]
        quick: bool,
        /// Repeat what chance decides as often as before a release
        #[arg(long, conflicts_with = "quick")]
        thorough: bool,
        /// Run the kernel tests on these Debian kernels instead, in emulated machines; without names, on all
        #[arg(long, num_args = 0.., value_name = "RELEASE", value_parser = kernels::names(), conflicts_with = "args")]
        kernels: Option<Vec<String>>,
        /// Write the results of --kernels to this file, as Markdown
        #[arg(long, value_name = "FILE", requires = "kernels")]
        out: Option<PathBuf>,
        /// Arguments of the named test programs, for example --nocapture
        #[arg(last = true, requires = "names")]
        args: Vec<OsString>,
    },
    /// Check formatting, clippy, objects, import rules, unsafe code, documents and dependencies
    Lint {
        /// Install cargo-deny and bpf-linker if they are missing; without them, dependencies and the objects' bytes are
        /// not checked
        #[arg(long)]
        strict: bool,
    },
    /// Run tests in miri, which finds undefined behaviour
    Miri,
    /// Fuzz the parsers, guided by coverage; needs a nightly compiler, and root for `pins`
    Fuzz {
        /// The targets; without names, all
        targets: Vec<String>,
        /// Duration of each target, in seconds
        #[arg(long, default_value_t = 60, value_name = "N")]
        seconds: u32,
    },
    /// Break the code in each way of tests/mutations.toml, and check that the test for it fails
    Mutations {
        /// Try only mutations with one of these texts in their names; without texts, all
        names: Vec<String>,
        /// Write the outcome of each mutation to this file, as Markdown
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Try so many mutations at once, if their tests differ: faster, but a test may fail because of another one
        #[arg(long, default_value_t = 1, value_name = "N")]
        together: usize,
    },
    /// Run the fleet's tests with stores and poolers of other Debian releases: some minutes for each
    Stores {
        /// Only those with one of these texts in their names; without texts, all
        names: Vec<String>,
        /// Write the results into the tables of this page
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Run the demonstration: two hosts, two floods, what gets through
    Demo(Rest),
    /// Build the static binary, and pack it as a tarball, .deb and .rpm
    Dist(dist::Options),
    /// Run floods, changes and readers at once for half an hour, and check the promises all the time
    Soak(Rest),
    /// Measure an overloaded web server behind a fixed and an adaptive limit: about nine minutes
    Overload(Rest),
    /// Run the benchmarks
    Bench(Rest),
    /// Interpret the program on the counted packets, as root: instructions and cache lines, in seconds
    Trace(Rest),
}

#[derive(Args)]
struct Rest {
    /// Arguments of the program: see --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

fn main() -> ExitCode {
    if rustc_wrapper::is_asked_for() {
        return report(rustc_wrapper::run());
    }
    report(dispatch(Cli::parse().verb))
}

fn dispatch(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::BuildEbpf { check: false, .. } => prebuilt::build()?,
        Verb::BuildEbpf { strict, .. } => prebuilt::check(strict)?,
        Verb::Test {
            kernels: Some(names),
            out,
            ..
        } => kernels::run(&names, out.as_deref())?,
        Verb::Test {
            names,
            strict,
            quick,
            thorough,
            args,
            ..
        } => {
            return test::run(&test::Choice {
                names,
                strict,
                quick,
                thorough,
                args,
            });
        }
        Verb::Lint { strict } => lint::run(strict)?,
        Verb::Miri => miri::run_all()?,
        Verb::Fuzz { targets, seconds } => fuzz::run(&targets, seconds)?,
        Verb::Dist(options) => dist::run(&options)?,
        Verb::Mutations {
            names,
            out,
            together,
        } => mutations::run(&names, out.as_deref(), together)?,
        Verb::Stores { names, out } => return stores::run(&names, out.as_deref()),
        Verb::Demo(Rest { args }) => return run::demo(&args),
        Verb::Bench(Rest { args }) => return run::bench(&args),
        Verb::Trace(Rest { args }) => return run::trace(&args),
        Verb::Overload(Rest { args }) => return run::load("overload", &args),
        Verb::Soak(Rest { args }) => return run::load("soak", &args),
    }
    Ok(ExitCode::SUCCESS)
}

fn report(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
