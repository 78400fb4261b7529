//! Developer commands: `cargo xtask VERB`. One file a verb.

#![forbid(unsafe_code)]

mod apt;
mod artifacts;
mod book;
mod compile;
mod debian;
mod deny;
mod digest;
mod dist;
mod documents;
mod flags;
mod fuzz;
mod host;
mod imports;
mod kernels;
mod lanes;
mod linker;
mod lint;
mod miri;
mod mutations;
mod objects;
mod parts;
mod paths;
mod prebuilt;
mod process;
mod record;
mod run;
mod rustc_wrapper;
mod rustup;
mod summary;
mod test;
mod toolchain;
mod tools;
mod unsafe_code;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Developer commands of limiter.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compile the BPF programs into limiter-ebpf/prebuilt, with a record of what they are made of
    BuildEbpf {
        /// Change nothing: fail if sources and objects disagree
        #[arg(long)]
        check: bool,
        /// Set up the pinned compiler and linker, and insist on comparing byte for byte
        #[arg(long, requires = "check")]
        strict: bool,
    },
    /// Check the objects, run every test, and name each test that could not run
    Test {
        /// A test that cannot run here is a failure
        #[arg(long)]
        strict: bool,
        /// Only the tests that together need less than three minutes
        #[arg(long, conflicts_with_all = ["kernels", "args"])]
        quick: bool,
        /// Instead: the tests of the kernel on Debian's kernels, in virtual machines; all of 5.10, 6.1, 6.12, newest,
        /// or these
        #[arg(long, num_args = 0.., value_name = "RELEASE", conflicts_with = "args")]
        kernels: Option<Vec<String>>,
        /// Boot no kernel: tell of the last time
        #[arg(long, requires = "kernels")]
        last: bool,
        /// File for the table of the kernels, as Markdown
        #[arg(long, value_name = "FILE", requires = "kernels")]
        out: Option<PathBuf>,
        /// Arguments to cargo test
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// Formatting, clippy for the host and for BPF, licences and sources of dependencies
    Lint {
        /// Install what is missing, and let nothing be left out
        #[arg(long)]
        strict: bool,
    },
    /// Run what miri can run of the tests: it finds undefined behaviour
    Miri {
        /// Install the nightly toolchain with miri
        #[arg(long)]
        install: bool,
    },
    /// Fuzz what is read from elsewhere, guided by coverage: needs a nightly compiler, and root for the kernel's targets
    Fuzz {
        /// All, unless some are named: capture, configuration, list, packets, pins, record, request, values
        targets: Vec<String>,
        /// For each target
        #[arg(long, default_value_t = 60, value_name = "N")]
        seconds: u32,
    },
    /// Break the code in each of the ways of tests/mutations.toml, and see that the test meant for it fails
    Mutations {
        /// Only those with one of these texts in their names
        names: Vec<String>,
        /// File for the table, as Markdown
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Run the demonstration: limiter demo ARGS
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Build the static binary, and what is installed of it: tarball, .deb and .rpm
    Dist(dist::Options),
    /// Everything at once for half an hour: what must hold is looked at all the time
    Soak {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Build the documents as a book, with mdBook
    Book,
    /// Run the benchmarks
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    if rustc_wrapper::is_asked_for() {
        return report(rustc_wrapper::run());
    }
    report(dispatch(Cli::parse().verb))
}

fn dispatch(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::BuildEbpf { check: false, .. } => prebuilt::build().map(|()| ExitCode::SUCCESS),
        Verb::BuildEbpf { strict, .. } => prebuilt::check(strict).map(|()| ExitCode::SUCCESS),
        Verb::Test {
            strict,
            kernels: Some(names),
            last,
            out,
            ..
        } => kernels::run(&kernels::Options {
            strict,
            names: &names,
            last,
            out: out.as_deref(),
        }),
        Verb::Test {
            strict,
            quick,
            args,
            ..
        } => test::run(strict, quick, &args),
        Verb::Lint { strict } => lint::run(strict).map(|()| ExitCode::SUCCESS),
        Verb::Miri { install } => miri::run_all(install).map(|()| ExitCode::SUCCESS),
        Verb::Fuzz { targets, seconds } => fuzz::run(&targets, seconds),
        Verb::Dist(options) => dist::run(&options).map(|()| ExitCode::SUCCESS),
        Verb::Mutations { names, out } => {
            mutations::run(&names, out.as_deref()).map(|()| ExitCode::SUCCESS)
        }
        Verb::Book => book::build().map(|()| ExitCode::SUCCESS),
        Verb::Demo { args } => run::demo(&args),
        Verb::Bench { args } => run::bench(&args),
        Verb::Soak { args } => run::soak(&args),
    }
}

fn report(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
