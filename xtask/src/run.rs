//! `cargo xtask demo`, `bench` and `soak`: what is built for speed, and then run.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{
    debian,
    process::{cargo, exit_code, progress},
};

/// What of Debian the benchmark calls: what limiter is compared with, and what sets the hosts up.
pub const BENCH_PACKAGES: [&str; 5] = [
    "ethtool",
    "iproute2",
    "iptables",
    "nftables",
    // The server is in it under another name: its own package starts a service.
    "redis-tools",
];

/// The demonstration that the command has built in.
pub fn demo(args: &[OsString]) -> Result<ExitCode> {
    let program = ["-p", "limiter-user", "--", "demo"];
    in_release("run", &program, args)
}

/// What limiting costs a packet.
pub fn bench(args: &[OsString]) -> Result<ExitCode> {
    // Subjects that are not there are left out, and the benchmark says so.
    if let Err(error) = debian::ensure(&BENCH_PACKAGES, "the whole benchmark") {
        progress(&format!("going on without: {error:#}"));
    }
    beside_the_command("bench", args)
}

/// Everything at once, for half an hour.
pub fn soak(args: &[OsString]) -> Result<ExitCode> {
    beside_the_command("soak", args)
}

/// Runs a program of the tests, which runs the command.
fn beside_the_command(name: &str, args: &[OsString]) -> Result<ExitCode> {
    let built = in_release("build", &["-p", "limiter-user"], &[])?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    in_release("run", &["-p", "limiter-tests", "--bin", name, "--"], args)
}

fn in_release(verb: &str, program: &[&str], args: &[OsString]) -> Result<ExitCode> {
    exit_code(cargo().args([verb, "--release"]).args(program).args(args))
}
