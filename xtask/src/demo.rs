//! `cargo xtask demo`: the demonstration that the `limiter` command has built in.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::process::{cargo, exit_code};

/// Runs it, and passes on how it ended.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    let mut command = cargo();
    command
        .args(["run", "--release", "-p", "limiter-user", "--", "demo"])
        .args(args);
    exit_code(&mut command)
}
