//! `cargo xtask test`: runs every test, and names the tests that could not run.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::{
    debian, lanes, paths, prebuilt,
    process::{joined, progress},
    run as programs,
};

/// Debian packages that the tests use, including those of the benchmark. None of them starts a service when it is
/// installed: `redis-tools` contains the server under another name.
const PACKAGES: &str = "bind9-dnsutils binutils bpftool busybox chromium-headless-shell crun dropbear-bin fish \
    groff-base iperf3 jq knot-dnsutils libc-ares2 libevent-2.1-7 libmemcached11 libpgpool2 libpython3.11 openssl \
    postgresql-client python3-jsonschema \
    python3-prometheus-client python3-yaml redis-tools rpm systemd tcpdump tmux util-linux valgrind wrk xdp-tools \
    zsh";

/// Debian packages that start a service when they are installed, and the folders of their programs.
const UNPACKED: [(&str, &str); 9] = [
    ("prometheus", "usr/bin"),
    ("nginx", "usr/sbin"),
    ("unbound", "usr/sbin"),
    ("postgresql-15", "usr/lib/postgresql/15/bin"),
    ("valkey-tools", "usr/bin"),
    ("pgbouncer", "usr/sbin"),
    ("pgpool2", "usr/sbin"),
    ("fail2ban", "usr/bin"),
    ("crowdsec", "usr/bin"),
];

/// The environment variable with which tests repeat more.
pub const THOROUGH: &str = "LIMITER_THOROUGH";

/// The tests to run, and how.
pub struct Choice {
    /// Only these; all if there are none.
    pub names: Vec<String>,
    /// A skipped test is a failure. So it is on a build server.
    pub strict: bool,
    pub quick: bool,
    pub thorough: bool,
    /// Arguments of the named test programs.
    pub args: Vec<OsString>,
}

/// Runs all tests, the quick ones, or those with names.
pub fn run(choice: &Choice) -> Result<ExitCode> {
    let began = Instant::now();
    let nothing_skipped = nothing_skipped(choice.strict);
    if !choice.quick && choice.names.is_empty() {
        prebuilt::compare_hashes()?;
    }
    let (installed, suites) = thread::scope(|scope| {
        let installed = scope.spawn(|| {
            let path = install_packages(nothing_skipped)?;
            anyhow::Ok((path, captures(nothing_skipped)?))
        });
        let suites = lanes::build(&choice.names);
        (joined(installed), suites)
    });
    let ((path, captures), suites) = (installed?, suites?);
    let skips = tempfile::NamedTempFile::new().context("no temporary file: set TMPDIR")?;
    // Without this variable, the tests build the command themselves, with fewer features of its dependencies, and
    // compile most of it again.
    let binary = paths::target().join("debug/limiter");
    let prepare = |command: &mut Command| {
        command
            .env("LIMITER_BINARY", &binary)
            .env("LIMITER_SKIPS", skips.path())
            .env("PATH", &path);
        if let Some(captures) = &captures {
            command.env("LIMITER_CAPTURES", captures);
        }
        if nothing_skipped {
            command.env("LIMITER_STRICT", "1");
        }
        if choice.thorough {
            command.env(THOROUGH, "1");
        }
    };
    let (summary, code) = if choice.names.is_empty() {
        let summary = lanes::run_all(&suites, choice.quick, &prepare)?;
        let code = ExitCode::from(u8::from(!summary.is_green()));
        (Some(summary), code)
    } else {
        let code = lanes::run_named(&suites, &choice.names, &choice.args, &prepare)?;
        (None, code)
    };
    let skips = fs::read_to_string(skips.path()).context("a test deleted the list of skips")?;
    let skipped = report(&skips);
    if let Some(summary) = summary {
        summary.close(skipped, began.elapsed());
    }
    if nothing_skipped && skipped > 0 {
        bail!("{skipped} tests did not run: see above what each of them needs");
    }
    Ok(code)
}

/// True if a skipped test is a failure: with `strict`, and on a build server.
fn nothing_skipped(strict: bool) -> bool {
    strict || env::var("CI").is_ok_and(|ci| ci == "true")
}

/// Installs the packages that some tests need. Without them, these tests are skipped and say so. That is an error only
/// if all tests must run. Returns the folders in which tests look for programs.
pub fn install_packages(needed: bool) -> Result<OsString> {
    let own = env::var_os("PATH").unwrap_or_default();
    if !needed && !debian::can_install() {
        return Ok(own);
    }
    let packages = format!("{PACKAGES} {}", programs::BENCH_PACKAGES);
    let installed = debian::ensure(&packages, "testing").and_then(|()| {
        UNPACKED
            .into_iter()
            .map(debian::unpack)
            .collect::<Result<Vec<_>>>()
    });
    match installed {
        Ok(folders) => env::join_paths(folders.into_iter().chain(env::split_paths(&own)))
            .context("a folder of PATH has a colon in its name"),
        Err(error) if needed => Err(error),
        Err(error) => {
            progress(&format!("continuing without: {error:#}"));
            Ok(own)
        }
    }
}

/// Unpacks public captures. Without them, the tests that read them are skipped.
fn captures(needed: bool) -> Result<Option<PathBuf>> {
    match debian::captures() {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if needed => Err(error),
        Err(error) => {
            progress(&format!("continuing without: {error:#}"));
            Ok(None)
        }
    }
}

/// Prints the skipped tests, which have written one line `name: reason` each. Returns their number.
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
