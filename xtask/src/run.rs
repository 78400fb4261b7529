//! `cargo xtask demo`, `bench` and `soak`: build optimized programs and run them.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{
    debian,
    process::{cargo, exit_code, progress},
};

/// Debian packages that the benchmark uses: programs to compare limiter with, and tools to set up the hosts.
pub const BENCH_PACKAGES: &str = "ethtool iproute2 iptables nftables";

/// Runs the demonstration.
pub fn demo(args: &[OsString]) -> Result<ExitCode> {
    debian::ensure("iproute2", "the demo")?;
    beside_the_command("demo", args)
}

/// Runs the benchmark of the cost per packet.
pub fn bench(args: &[OsString]) -> Result<ExitCode> {
    // Missing subjects are left out, and the benchmark says so.
    if let Err(error) = debian::ensure(BENCH_PACKAGES, "the whole benchmark") {
        progress(&format!("continuing without: {error:#}"));
    }
    beside_the_command("bench", args)
}

/// Runs the soak test: everything at once, for half an hour.
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
