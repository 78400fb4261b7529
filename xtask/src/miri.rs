//! `cargo xtask miri`: the tests of code that miri can run, in its interpreter, which finds undefined behaviour.
//!
//! miri is of the nightly toolchain, which is not pinned: it judges, and makes nothing that is handed on. It knows no
//! system calls of BPF and needs a hundred times as long, so that it runs the arithmetic, the table over memory of a test,
//! and the code that makes types of bytes.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{
    paths,
    process::{forget_rust_settings, progress, run},
};

/// Packages, and which of their tests. Of those that try thousands of cases, a few.
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
/// Cases of each property.
const CASES: &str = "6";

/// Runs them; `install` adds miri where it is missing.
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
        // Files of the tests' own, and the clock.
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
