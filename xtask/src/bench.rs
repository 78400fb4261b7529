//! `cargo xtask bench`: what limiting costs a packet.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{
    debian,
    process::{cargo, exit_code, progress},
};

/// What of Debian the benchmark calls: what limiter is compared with, and what sets the hosts up.
pub const PACKAGES: [&str; 5] = [
    "ethtool",
    "iproute2",
    "iptables",
    "nftables",
    // The server is in it under another name: its own package starts a service.
    "redis-tools",
];

/// Runs the benchmarks, and passes on how they ended.
pub fn run(args: &[OsString]) -> Result<ExitCode> {
    // Subjects that are not there are left out, and the benchmark says so.
    if let Err(error) = debian::ensure(&PACKAGES, "the whole benchmark") {
        progress(&format!("going on without: {error:#}"));
    }
    // One subject has it running.
    let built = exit_code(cargo().args(["build", "--release", "-p", "limiter-user"]))?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
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
