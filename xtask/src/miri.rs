//! `cargo xtask miri`: runs tests in miri, an interpreter that finds undefined behaviour.
//!
//! miri is part of the nightly toolchain, which is not pinned, because miri produces nothing. miri does not know the
//! system calls of BPF and is a hundred times slower. It runs the arithmetic, the table in a test's memory, and the
//! code that converts bytes to types.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{
    paths,
    process::{forget_rust_settings, progress, run},
};

/// The packages and the tests to run. Tests with thousands of cases run only a few of them.
const RUNS: [&[&str]; 3] = [
    &["--package", "limiter-common", "--lib"],
    &[
        "--package",
        "limiter-common",
        "--test",
        "table_properties",
        "--",
        "an_",
        "no_two",
        "is_full",
        "fills_no",
    ],
    &[
        "--package",
        "limiter-user",
        "--lib",
        "--",
        "kernel::program::raw",
    ],
];
/// Number of cases per property.
const CASES: &str = "6";

/// Runs the tests. `install`: adds miri if it is missing.
pub fn run_all(install: bool) -> Result<()> {
    if install {
        progress("adding miri to the nightly toolchain");
        let mut add = rustup();
        add.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
        add.args(["--component", "miri", "--component", "rust-src"]);
        run(&mut add)
            .context("no miri to be had: rustup installs it with the nightly toolchain")?;
    }
    for arguments in RUNS {
        let mut miri = rustup();
        miri.args(["run", "nightly", "cargo", "miri", "test", "--locked"]);
        miri.arg("--target-dir").arg(paths::target().join("miri"));
        miri.args(arguments);
        // Allows access to the tests' own files, and to the clock.
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .env("PROPTEST_CASES", CASES);
        run(miri.current_dir(paths::root()))
            .context("miri found something, or is missing: `cargo xtask miri --install` adds it")?;
    }
    Ok(())
}

fn rustup() -> Command {
    let mut rustup = Command::new("rustup");
    forget_rust_settings(&mut rustup);
    rustup
}
