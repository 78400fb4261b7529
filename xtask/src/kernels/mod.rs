//! `cargo xtask test --kernels`: runs the kernel tests on Debian's kernels, each booted in a virtual machine.

mod image;
mod machine;
mod page;
mod results;

use std::{
    collections::BTreeMap,
    env, fs, iter,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, bail};

use self::results::Run;
use crate::{
    apt::Apt,
    debian, paths,
    process::{cargo, in_parallel, output, progress, run as succeed},
    summary::Summary,
};

/// A kernel to boot.
#[derive(Clone, Copy)]
struct Release {
    /// Name on the command line.
    name: &'static str,
    /// The package that depends on the current kernel.
    meta: &'static str,
    /// Debian suites that have the kernel. The newest version in them is used.
    suites: &'static [&'static str],
}

/// The kernel for virtual machines, which is the smallest, and the one with the drivers of all cards.
const SMALL: &str = "linux-image-cloud-amd64";
const FULL: &str = "linux-image-amd64";
const NEWEST: &[&str] = &["trixie-backports", "sid"];

/// All kernels, oldest first; those with all drivers; and the one of the machine that counts instructions.
const RELEASES: [Release; 7] = [
    release("6.1", SMALL, &["bookworm"]),
    release("6.12", SMALL, &["trixie"]),
    release("newest", SMALL, NEWEST),
    release("drivers-6.1", FULL, &["bookworm"]),
    release("drivers-6.12", FULL, &["trixie"]),
    release("drivers-newest", FULL, NEWEST),
    release(COUNTED, SMALL, &["trixie"]),
];

const fn release(
    name: &'static str,
    meta: &'static str,
    suites: &'static [&'static str],
) -> Release {
    Release { name, meta, suites }
}

/// Modules of the kernel, besides those that they need, and the folder that keeps them.
const WANTED: &str = "veth bonding 8021q bridge macvlan macvtap team team_mode_activebackup virtio_pci virtio_net vmxnet3 e1000 e1000e 8139cp 8139too igb sch_fq sch_tbf sch_ingress cls_matchall act_police tun wireguard";
const MODULES: &str = "modules";

/// The machine that counts instructions, the page with its figures, and the line before them.
const COUNTED: &str = "counted";
const FIGURES: &str = "docs/bench/instructions.md";
const HEAD: &str = "| --- | --- | --- | --- |\n";
/// The page with a row for each network card and each interface of software, and the lines before the rows.
const CARDS: &str = "docs/drivers.md";
const CARDS_HEAD: &str = "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
const DEVICES_HEAD: &str = "\n| --- | --- | --- | --- | --- |\n";
/// Environment variable: if set, those pages are written.
const WRITE_DOCS: &str = "LIMITER_WRITE_DOCS";

/// Debian packages to boot a kernel, and to fill its boot image.
const PACKAGES: &str = "binutils bpftool busybox debian-archive-keyring ethtool iperf3 iproute2 kmod libteam-utils qemu-system-x86 seabios wireguard-tools xdp-tools xz-utils zstd";

/// The packages of a kernel. Before Linux 7, everything is in the first one.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];

pub fn names() -> [&'static str; 7] {
    RELEASES.map(|release| release.name)
}

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
    };
    summary.close(0, began.elapsed());
    if !summary.is_green() {
        bail!("{failures}=== see also {}/*.log", folder().display());
    }
    if env::var_os(WRITE_DOCS).is_none() {
        return Ok(());
    }
    record_cards(&runs)?;
    let counted = runs.iter().find(|run| run.name == COUNTED);
    counted.map_or(Ok(()), record)
}

/// Writes the rows that the machines have printed. A row replaces the one with its first two cells.
fn record_cards(runs: &[Run]) -> Result<()> {
    let path = paths::root().join(CARDS);
    let mut page = fs::read_to_string(&path).context(CARDS)?;
    let targets = runs.iter().flat_map(|run| &run.targets);
    let printed: Vec<_> = targets.flat_map(|target| target.printed.lines()).collect();
    let bars = |row: &str| row.matches('|').count();
    for head in [CARDS_HEAD, DEVICES_HEAD] {
        let (text, table) = page.split_once(head).context(CARDS)?;
        let (old, rest) = table.split_once("\n\n").context(CARDS)?;
        let is_row = |row: &&str| row.starts_with("| ") && bars(row) == bars(head);
        let rows = old.lines().chain(printed.iter().copied().filter(is_row));
        let rows = rows.map(|row| (row.split('|').take(3).collect::<Vec<_>>(), row));
        let rows: Vec<_> = rows.collect::<BTreeMap<_, _>>().into_values().collect();
        page = format!("{text}{head}{}\n\n{rest}", rows.join("\n"));
    }
    fs::write(&path, page).context(CARDS)
}

/// Writes the figures that the host's test and the machine have counted.
fn record(machine: &Run) -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--workspace", "--locked", "--test", "instructions"]);
    let host = output(test.args(["--", "--show-output", "--test-threads=1"]))?;
    let machine = machine.targets.iter().map(|target| &*target.printed);
    let lines = iter::once(&*host).chain(machine).flat_map(str::lines);
    let rows = lines.filter(|line| line.starts_with("| "));
    let rows: String = rows.flat_map(|row| [row, "\n"]).collect();
    let path = paths::root().join(FIGURES);
    let page = fs::read_to_string(&path)?;
    let (text, _) = page.split_once(HEAD).context(FIGURES)?;
    fs::write(path, format!("{text}{HEAD}{rows}")).context(FIGURES)
}

/// The folder of the kernels, their boot image, and their logs.
fn folder() -> PathBuf {
    paths::target().join("kernels")
}

/// Returns the results, and the machines that failed, then passed.
fn run_tests(names: &[String]) -> Result<(Vec<Run>, Vec<String>)> {
    if env::consts::ARCH != "x86_64" {
        bail!("the kernels are for x86-64, not for {}", env::consts::ARCH);
    }
    debian::ensure(PACKAGES, "testing on other kernels")?;
    let mut releases = RELEASES.to_vec();
    releases.retain(|release| names.is_empty() || names.iter().any(|name| name == release.name));
    for release in &releases {
        fetch(*release).with_context(|| format!("cannot test Linux {}", release.name))?;
    }
    let image = image::make(&releases)?;
    // Runs as many machines as there are CPUs. Each machine has two CPUs, but mostly one of them is busy.
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let mut runs = in_parallel(at_once, releases.clone(), |release| {
        machine::boot(release, &image, "")
    })?;
    // A machine that failed runs once more, alone. The emulator sometimes breaks a correct kernel, for example while
    // the kernel patches its own instructions.
    let mut flaky = Vec::new();
    let booted = releases.into_iter().zip(&mut runs);
    for (release, run) in booted.filter(|(_, run)| !run.failures().is_empty()) {
        println!("{}=== {run} runs once more", run.failures());
        *run = machine::boot(release, &image, ".again")?;
        if run.failures().is_empty() {
            flaky.push(run.to_string());
        }
    }
    Ok((runs, flaky))
}

/// Downloads the image and the drivers of a kernel into a folder of its name. An existing folder is used as it is:
/// delete it to get a newer kernel.
fn fetch(release: Release) -> Result<()> {
    let kept = folder().join(release.name);
    if kept.join(MODULES).exists() {
        return Ok(());
    }
    progress(&format!("downloading Debian's kernel {}", release.name));
    let apt = Apt::new(&folder().join("apt").join(release.name), release.suites)?;
    let depends = output(apt.cache().args(["depends", release.meta]))?;
    let kernel = depends
        .split_whitespace()
        .find_map(|word| {
            word.strip_prefix(PARTS[0])
                .filter(|&kernel| is_version(kernel))
        })
        .with_context(|| format!("Debian's mirror has no {}", release.meta))?;
    let mut parts = PARTS.map(|part| format!("{part}{kernel}")).to_vec();
    parts.retain(|part| output(apt.cache().args(["show", part])).is_ok());
    let tree = paths::scratch()?;
    apt.unpack(&parts, tree.path())?;
    // Unpacks to a temporary folder first: half a kernel must not look complete.
    let new = kept.with_extension("new");
    fs::create_dir_all(&new)?;
    fs::copy(find(tree.path(), "vmlinuz")?, new.join("vmlinuz"))?;
    let modules = new.join(MODULES);
    fs::create_dir_all(&modules)?;
    let mut wanted = Vec::new();
    for name in WANTED.split_whitespace() {
        add_module(tree.path(), name, &mut wanted)?;
    }
    for (place, mut module) in wanted.into_iter().enumerate() {
        for (ending, program) in [("xz", "xz"), ("zst", "zstd")] {
            if module.extension().is_some_and(|found| found == ending) {
                succeed(Command::new(program).arg("-d").arg(&module))?;
                module.set_extension("");
            }
        }
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        fs::copy(&module, modules.join(format!("{place:02}-{name}")))?;
    }
    // A folder of an earlier build lacks modules.
    let _ = fs::remove_dir_all(&kept);
    fs::rename(new, kept).context("cannot keep the kernel")
}

/// Adds the file of a module of the kernel in `tree`, after those that it needs. A kernel may have it built in, or not at
/// all.
fn add_module(tree: &Path, name: &str, modules: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(file) = find(tree, &format!("{name}.ko")) else {
        return Ok(());
    };
    if modules.contains(&file) {
        return Ok(());
    }
    let needed = output(
        Command::new("/sbin/modinfo")
            .args(["-F", "depends"])
            .arg(&file),
    )?;
    for needed in needed.trim().split(',') {
        add_module(tree, needed, modules)?;
    }
    modules.push(file);
    Ok(())
}

/// True if a name after `linux-image-` is a version, not the name of another package like [`SMALL`].
fn is_version(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_digit())
}

/// Finds the file below `folder` with a name that begins with `start`.
fn find(folder: &Path, start: &str) -> Result<PathBuf> {
    let starts = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        // Modules are named with either.
        name.to_string_lossy()
            .replace('-', "_")
            .starts_with(&start.replace('-', "_"))
    };
    let found = paths::files_in(folder)?.into_iter().find(starts);
    found.with_context(|| format!("Debian's kernel has no {start}"))
}
