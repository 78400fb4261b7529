//! `cargo xtask soak`: everything at once, for half an hour.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::process::{cargo, exit_code};

/// Runs the soak, and passes on how it ended.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    let packages = ["-p", "limiter-user", "-p", "limiter-tests"];
    let mut build = cargo();
    build.args(["build", "--release", "--bin", "limiter", "--bin", "soak"]);
    let built = exit_code(build.args(packages))?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    let mut soak = cargo();
    soak.args(["run", "--release", "-p", "limiter-tests", "--bin", "soak"]);
    exit_code(soak.arg("--").args(args))
}
