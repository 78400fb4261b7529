//! `cargo xtask test --kernels`: runs the kernel tests on Debian's kernels, each booted in a virtual machine.

mod boot;
mod fetch;
mod image;
mod plan;
mod releases;
mod report;
mod table;

use std::{env, fs, path::Path, process::ExitCode, thread};

use anyhow::{Context, Result, bail};

use self::{releases::Release, report::Run};
use crate::{
    debian, paths,
    process::{in_parallel, today},
    test,
};

/// Debian packages to boot a kernel, and to fill its boot image.
const PACKAGES: [&str; 9] = [
    "binutils",
    "bpftool",
    "busybox",
    "debian-archive-keyring",
    "iproute2",
    "qemu-system-x86",
    "seabios",
    "xz-utils",
    "zstd",
];

/// The options of a run.
pub struct Options<'a> {
    /// Whether an unavailable kernel is a failure.
    pub strict: bool,
    /// Names of the kernels; all if empty.
    pub names: &'a [String],
    /// Whether to boot nothing, and report the last run.
    pub last: bool,
    /// The file for the table.
    pub out: Option<&'a Path>,
}

/// Boots the kernels, runs the tests there, and reports the results.
pub fn run(options: &Options<'_>) -> Result<ExitCode> {
    let releases = releases::chosen(options.names)?;
    let runs = if options.last {
        releases
            .into_iter()
            .map(boot::last)
            .collect::<Result<_>>()?
    } else {
        run_tests(test::nothing_skipped(options.strict), releases)?
    };
    if runs.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}\n{}", table::summary(&runs), table::verified(&runs));
    if let Some(out) = options.out {
        fs::write(out, table::page(&runs, &today()?))
            .with_context(|| format!("cannot write {}", out.display()))?;
    }
    tell_failures(&runs);
    let failed: Vec<_> = runs.iter().filter(|run| !run.passed()).collect();
    if !failed.is_empty() {
        let names: Vec<_> = failed.iter().map(|run| run.name).collect();
        bail!(
            "not all is well on Linux {}: see above, and {}/*.log",
            names.join(", "),
            paths::kernels().display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the tests on the available kernels. With `strict`, an unavailable kernel is an error.
fn run_tests(strict: bool, releases: Vec<&'static Release>) -> Result<Vec<Run>> {
    if let Err(error) = prepare() {
        missing(strict, "every kernel", &error)?;
        return Ok(Vec::new());
    }
    let mut kernels = Vec::new();
    for release in releases {
        match fetch::kernel(release) {
            Ok(kernel) => kernels.push(kernel),
            Err(error) => missing(strict, &format!("Linux {}", release.name), &error)?,
        }
    }
    if kernels.is_empty() {
        return Ok(Vec::new());
    }
    let image = image::make(&kernels)?;
    // Runs as many machines as there are CPUs. Each machine has two CPUs, but mostly one of them is busy.
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    in_parallel(at_once, kernels, |kernel| boot::boot(&kernel, &image))
}

/// Installs the virtual machine and the tools to make its image.
fn prepare() -> Result<()> {
    if env::consts::ARCH != "x86_64" {
        bail!(
            "the kernels are for x86-64, and this machine is {}",
            env::consts::ARCH
        );
    }
    debian::ensure(&PACKAGES, "testing on other kernels")
}

/// Warns that something is not tested. With `strict`, that is an error.
fn missing(strict: bool, what: &str, error: &anyhow::Error) -> Result<()> {
    if strict {
        bail!("{what} was to be tested: {error:#}");
    }
    println!("\n=== skipped: {what}: {error:#}");
    Ok(())
}

fn tell_failures(runs: &[Run]) {
    for run in runs {
        for complaint in &run.complaints {
            println!("=== Linux {}: {complaint}", run.name);
        }
        for target in run.targets.iter().filter(|target| !target.passed()) {
            println!(
                "=== Linux {}, {}, exit {:?}:",
                run.name, target.name, target.exit
            );
            target
                .printed
                .iter()
                .for_each(|line| println!("    {line}"));
        }
    }
}
