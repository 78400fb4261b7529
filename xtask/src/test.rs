//! `cargo xtask test`: every test, and in plain words which of them could not run.

use std::{collections::BTreeMap, env, ffi::OsString, fs, process::ExitCode};

use anyhow::{Context, Result, bail};

use crate::{
    bench, check, debian, host,
    process::{cargo, exit_code, progress},
};

/// What of Debian the tests call: those of the benchmark, and more. None of them starts a service when it is
/// installed.
const PACKAGES: [&str; 11] = [
    "binutils",
    "bpftool",
    "busybox",
    "chromium-headless-shell",
    "dnsmasq-base",
    "dnsperf",
    "rpm",
    "systemd",
    "tmux",
    "util-linux",
    "wrk",
];

/// What of Debian the tests call, and would start a service if it was installed.
const UNPACKED: &str = "prometheus";

/// Runs `cargo test` with `args`; strictly, and on a build server, a test left out is a failure.
pub fn run(strict: bool, args: &[OsString]) -> Result<ExitCode> {
    let nothing_skipped = nothing_skipped(strict);
    say_what_cannot_be_tested();
    let path = install_packages(nothing_skipped)?;
    check::run(strict)?;
    let skips = tempfile::NamedTempFile::new().context("no temporary file: set TMPDIR")?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--locked"]).args(args);
    command.env("LIMITER_SKIPS", skips.path()).env("PATH", path);
    if nothing_skipped {
        command.env("LIMITER_STRICT", "1");
    }
    let code = exit_code(&mut command)?;
    let skips = fs::read_to_string(skips.path()).context("a test deleted the list of skips")?;
    let count = report(&skips);
    if nothing_skipped && count > 0 {
        bail!("{count} tests did not run: see above what each of them needs");
    }
    Ok(code)
}

/// Strictly, and on a build server, a test left out is a failure.
pub fn nothing_skipped(strict: bool) -> bool {
    strict || env::var("CI").is_ok_and(|ci| ci == "true")
}

fn say_what_cannot_be_tested() {
    if let Some(reason) = host::why_no_bpf() {
        progress(&format!(
            "{reason}: tests that load BPF programs or make interfaces cannot run"
        ));
    }
}

/// Without them some tests cannot run, and say so themselves: that is fatal only if all must run. Returns where
/// the tests are to look for programs.
fn install_packages(needed: bool) -> Result<OsString> {
    let own = env::var_os("PATH").unwrap_or_default();
    if !needed && !debian::can_install() {
        return Ok(own);
    }
    let packages = [&PACKAGES[..], &bench::PACKAGES].concat();
    let installed = debian::ensure(&packages, "testing").and_then(|()| debian::unpack(UNPACKED));
    match installed {
        Err(error) if !needed => {
            progress(&format!("going on without: {error:#}"));
            Ok(own)
        }
        unpacked => {
            let folders = [unpacked?].into_iter().chain(env::split_paths(&own));
            env::join_paths(folders).context("a folder of PATH has a colon in its name")
        }
    }
}

/// Prints what the tests wrote, a line `name: reason` for each that did not run. Returns how many.
fn report(skips: &str) -> usize {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in skips.lines().filter(|line| !line.trim().is_empty()) {
        let (name, reason) = line.split_once(": ").unwrap_or((line, "no reason given"));
        by_reason.entry(reason).or_default().push(name);
    }
    for (reason, names) in &mut by_reason {
        names.sort_unstable();
        println!("\n=== {} skipped: {reason}", names.len());
        names.iter().for_each(|name| println!("    {name}"));
    }
    by_reason.values().map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use super::report;

    #[test]
    fn counts_every_line_that_names_a_test() {
        assert_eq!(report("a: not root\n\nb: no veth\nc: not root\nd\n"), 4);
        assert_eq!(report(""), 0);
    }
}
