//! `cargo xtask demo`, `bench` and `soak`: build optimized programs and run them.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{
    debian,
    process::{cargo, exit_code, progress},
};

/// Debian packages that the benchmark uses: programs to compare limiter with, and tools to set up the hosts.
pub const BENCH_PACKAGES: &str = "ethtool iproute2 iptables nftables";

/// Builds `demo`, `bench` or `soak` and the command, and runs it. Without all packages, the benchmark leaves subjects
/// out and says so.
pub fn program(name: &str, args: &[OsString]) -> Result<ExitCode> {
    if let Err(error) = debian::ensure(BENCH_PACKAGES, name) {
        progress(&format!("continuing without: {error:#}"));
    }
    let built = in_release("build", &["-p", "limiter-user"], &[])?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    in_release("run", &["-p", "limiter-tests", "--bin", name, "--"], args)
}

fn in_release(verb: &str, program: &[&str], args: &[OsString]) -> Result<ExitCode> {
    exit_code(cargo().args([verb, "--release"]).args(program).args(args))
}
