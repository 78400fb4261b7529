//! `cargo xtask miri`: runs tests in miri, an interpreter that finds undefined behaviour.
//!
//! miri is part of the nightly toolchain, which is not pinned, because miri produces nothing. miri does not know the
//! system calls of BPF and is a hundred times slower. It runs the arithmetic, the table in a test's memory, and the
//! code that converts bytes to types.

use anyhow::{Context, Result};

use crate::{
    paths,
    process::{nightly, run, rustup},
};

/// The packages and the tests to run. Tests with thousands of cases run only a few of them.
const RUNS: [&str; 3] = [
    "--package limiter-common --lib",
    "--package limiter-common --test table_properties -- different_keys entry_",
    "--package limiter-kernel --lib -- program::raw",
];
/// Number of cases per property.
const CASES: &str = "6";

/// Runs the tests. rustup adds miri if it is missing.
pub fn run_all() -> Result<()> {
    let mut add = rustup();
    add.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
    run(add.args(["--component", "miri", "--component", "rust-src"]))?;
    for arguments in RUNS {
        let mut miri = nightly("cargo");
        miri.args(["miri", "test", "--locked", "--target-dir"]);
        miri.arg(paths::target().join("miri"))
            .args(arguments.split(' '));
        // Allows access to the tests' own files, and to the clock.
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        miri.env("PROPTEST_CASES", CASES);
        run(miri.current_dir(paths::root())).context("miri found something")?;
    }
    Ok(())
}
