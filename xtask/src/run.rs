//! `cargo xtask demo`, `bench`, `trace`, `overload` and `soak`: build programs and run them.

use std::{
    ffi::OsString,
    process::{Command, ExitCode},
};

use anyhow::Result;

use crate::{
    debian, paths,
    process::{cargo, exit_code, progress, run},
};

/// Debian packages that the benchmark uses: programs to compare limiter with, and tools to set up the hosts.
pub const BENCH_PACKAGES: &str = "ethtool iproute2 iptables nftables";

/// Builds the command and `demo` as the tests do, and runs it. Optimized builds would take minutes, and the
/// demonstration sends few packets.
pub fn demo(args: &[OsString]) -> Result<ExitCode> {
    install("iproute2", "demo");
    // Without `--package`, features are those of the whole workspace, so that the tests need no package anew.
    run(cargo().args(["build", "--locked", "--bin", "limiter", "--bin", "demo"]))?;
    let folder = paths::target().join("debug");
    let mut demo = Command::new(folder.join("demo"));
    exit_code(
        demo.args(args)
            .env("LIMITER_BINARY", folder.join("limiter")),
    )
}

/// Builds `trace` as the tests do, and runs it.
pub fn trace(args: &[OsString]) -> Result<ExitCode> {
    install("bpftool", "trace");
    run(cargo().args(["build", "--locked", "--bin", "trace"]))?;
    let program = paths::target().join("debug/trace");
    exit_code(Command::new(program).args(args))
}

/// Runs the benchmark. Without all packages, it leaves subjects out and says so.
pub fn bench(args: &[OsString]) -> Result<ExitCode> {
    let program = ["-p", "limiter-tests", "--bin", "bench", "--"];
    optimized("bench", &program, args)
}

/// Runs `overload` or `soak`.
pub fn load(name: &str, args: &[OsString]) -> Result<ExitCode> {
    optimized(name, &["-p", "limiter-load", "--", name], args)
}

/// Builds a program and the command, both optimized, and runs it.
fn optimized(name: &str, program: &[&str], args: &[OsString]) -> Result<ExitCode> {
    install(BENCH_PACKAGES, name);
    let built = in_release("build", &["-p", "limiter-user"], &[])?;
    if built != ExitCode::SUCCESS {
        return Ok(built);
    }
    in_release("run", program, args)
}

/// Installs packages if that is possible.
fn install(packages: &str, purpose: &str) {
    if let Err(error) = debian::ensure(packages, purpose) {
        progress(&format!("continuing without: {error:#}"));
    }
}

fn in_release(verb: &str, program: &[&str], args: &[OsString]) -> Result<ExitCode> {
    exit_code(cargo().args([verb, "--release"]).args(program).args(args))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::process::output;

    /// The packages of the workspace with their features. `kinds` are the kinds of dependencies.
    fn packages(kinds: &str) -> Result<BTreeSet<String>> {
        let mut tree = cargo();
        tree.args(["tree", "--workspace", "--locked", "--prefix", "none"]);
        let printed = output(tree.args(["--format", "{p} {f}", "--edges", kinds]))?;
        let lines = printed.lines();
        // The mark of packages that were listed before.
        Ok(lines.map(|line| line.replace(" (*)", "")).collect())
    }

    /// Features that only dependencies of tests enable would make another build of a package, and of all that depend on
    /// it.
    #[test]
    fn demo_and_tests_share_the_builds_of_all_packages() -> Result<()> {
        let (demo, tests) = (packages("normal,build")?, packages("normal,build,dev")?);
        let others: Vec<_> = demo.difference(&tests).collect();
        assert_eq!(others, [""; 0]);
        assert!(demo.len() > 100 && tests.len() > demo.len());
        Ok(())
    }
}
