//! `cargo xtask bench`: what the program costs a packet.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::process::{cargo, exit_code};

/// Runs the benchmarks, and passes on how they ended.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    let mut command = cargo();
    command
        .args([
            "run",
            "--release",
            "-p",
            "limiter-tests",
            "--bin",
            "bench",
            "--",
        ])
        .args(args);
    exit_code(&mut command)
}
