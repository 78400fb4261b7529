//! `cargo xtask test --kernels`: runs the kernel tests on Debian's kernels, each booted in a virtual machine.

mod image;
mod machine;
mod page;
mod release;
mod results;

use std::{collections::BTreeMap, env, fs, iter, path::Path, thread, time::Instant};

use anyhow::{Context, Result, bail};

pub use self::release::names;
use self::{
    release::{COUNTED, Release, WRITE_DOCS, folder},
    results::Run,
};
use crate::{
    debian, paths,
    process::{cargo, in_parallel, joined, output},
    suites::KERNEL,
    summary::Summary,
};

/// The page with the counted figures, and the line before them.
const FIGURES: &str = "docs/bench/instructions.md";
const HEAD: &str = "| --- | --- | --- | --- |\n";
/// The page with a row for each network card and each interface of software, and the lines before the rows.
const CARDS: &str = "docs/drivers-tested.md";
const CARDS_HEAD: &str = "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
const DEVICES_HEAD: &str = "\n| --- | --- | --- | --- | --- |\n";
/// The page with a row for each use of limiter in lockdown.
const LOCKDOWN: &str = "docs/lockdown.md";
const LOCKDOWN_HEAD: &str = "| --- | --- | --- |\n";

/// Debian packages to make a boot image, and to boot a kernel, besides the emulator.
const PACKAGES: &str = "binutils busybox debian-archive-keyring iproute2 kmod xz-utils zstd";

/// Runs the tests on the kernels with these names, or on all. Writes a page of the results to `out`.
pub fn run(names: &[String], out: Option<&Path>) -> Result<()> {
    let began = Instant::now();
    let (runs, flaky) = run_tests(names)?;
    let page = page::page(&runs)?;
    println!("{page}");
    if let Some(out) = out {
        fs::write(out, page).with_context(|| format!("cannot write {}", out.display()))?;
    }
    let failures: String = runs.iter().map(Run::failures).collect();
    let failed = runs.iter().filter(|run| !run.failures().is_empty());
    let failed: Vec<_> = failed.map(Run::to_string).collect();
    let summary = Summary {
        passed: runs.len() - failed.len() - flaky.len(),
        failed,
        flaky,
        times: Vec::new(),
    };
    summary.close(0, began.elapsed());
    if !summary.is_green() {
        bail!("{failures}=== see also {}/*.log", folder().display());
    }
    if env::var_os(WRITE_DOCS).is_none() {
        return Ok(());
    }
    record_rows(&runs, CARDS, &[CARDS_HEAD, DEVICES_HEAD])?;
    record_rows(&runs, LOCKDOWN, &[LOCKDOWN_HEAD])?;
    let counted = runs.iter().find(|run| run.name == COUNTED);
    counted.map_or(Ok(()), record)
}

/// Writes the rows that the machines have printed. A row replaces the one with its first two cells.
fn record_rows(runs: &[Run], name: &'static str, heads: &[&str]) -> Result<()> {
    let path = paths::root().join(name);
    let mut page = fs::read_to_string(&path).context(name)?;
    let targets = runs.iter().flat_map(|run| &run.targets);
    let printed: Vec<_> = targets.flat_map(|target| target.printed.lines()).collect();
    let bars = |row: &str| row.matches('|').count();
    for head in heads {
        let (text, table) = page.split_once(*head).context(name)?;
        let (old, rest) = table.split_once("\n\n").context(name)?;
        let is_row = |row: &&str| row.starts_with("| ") && bars(row) == bars(head);
        let rows = old.lines().chain(printed.iter().copied().filter(is_row));
        let rows = rows.map(|row| (row.split('|').take(3).collect::<Vec<_>>(), row));
        let rows: Vec<_> = rows.collect::<BTreeMap<_, _>>().into_values().collect();
        page = format!("{text}{head}{}\n\n{rest}", rows.join("\n"));
    }
    fs::write(&path, page).context(name)
}

/// Writes the figures that the host's test and the machine have counted.
fn record(machine: &Run) -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--workspace", "--locked", "--test", KERNEL, "--"]);
    let host = output(test.args(["instructions::", "--show-output", "--test-threads=1"]))?;
    let machine = machine.targets.iter().map(|target| &*target.printed);
    let lines = iter::once(&*host).chain(machine).flat_map(str::lines);
    let rows = lines.filter(|line| line.starts_with("| "));
    let rows: String = rows.flat_map(|row| [row, "\n"]).collect();
    let path = paths::root().join(FIGURES);
    let page = fs::read_to_string(&path)?;
    let (text, _) = page.split_once(HEAD).context(FIGURES)?;
    fs::write(path, format!("{text}{HEAD}{rows}")).context(FIGURES)
}

/// Returns the results, and the machines that failed, then passed.
fn run_tests(names: &[String]) -> Result<(Vec<Run>, Vec<String>)> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for release in Release::named(names)? {
        let group = groups.entry(release.architecture.name);
        group.or_default().push(release);
    }
    for releases in groups.values() {
        let architecture = releases[0].architecture;
        let packages = format!("{PACKAGES} {}", architecture.emulator);
        debian::ensure(&packages, "testing on other kernels")?;
        // A download mostly waits for Debian's mirror.
        thread::scope(|scope| {
            let programs = scope.spawn(|| image::packages(architecture));
            in_parallel(4, releases.clone(), |release| {
                let fetched = release.fetch();
                fetched.with_context(|| format!("cannot test Linux {}", release.name))
            })?;
            joined(programs)
        })?;
        image::make(architecture, releases)?;
    }
    let releases = groups.into_values().flatten();
    let (counting, others): (Vec<_>, _) = releases.partition(|release| release.name == COUNTED);
    // Runs as many machines as there are CPUs. Each machine has two CPUs, but mostly one of them is busy.
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let runs = thread::scope(|scope| {
        // Counts do not depend on time.
        let counting = scope.spawn(|| in_parallel(1, counting, boot));
        let mut runs = in_parallel(at_once, others, boot)?;
        runs.extend(joined(counting)?);
        anyhow::Ok(runs)
    })?;
    let (runs, flaky): (_, Vec<_>) = runs.into_iter().unzip();
    Ok((runs, flaky.into_iter().flatten().collect()))
}

/// Runs a machine's tests. A machine that failed runs once more, and is named if it then passes: the emulator sometimes
/// breaks a correct kernel, for example while the kernel patches its own instructions.
fn boot(release: Release) -> Result<(Run, Option<String>)> {
    let run = machine::boot(release, "")?;
    if run.failures().is_empty() {
        return Ok((run, None));
    }
    println!("{}=== {run} runs once more", run.failures());
    let run = machine::boot(release, ".again")?;
    let flaky = run.failures().is_empty().then(|| run.to_string());
    Ok((run, flaky))
}
