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
use clap::builder::PossibleValuesParser;

use self::results::Run;
use crate::{
    apt::Apt,
    architecture::Architecture,
    debian, paths,
    process::{cargo, in_parallel, joined, output, progress, run as succeed},
    summary::Summary,
};

/// The kernels to boot, oldest first; those with all drivers; the one of the machine that counts instructions; and
/// those of other processors.
const RELEASES: &str = include_str!("releases.txt");

/// A kernel to boot.
#[derive(Clone, Copy)]
struct Release {
    /// Name on the command line.
    name: &'static str,
    architecture: Architecture,
    /// The package that depends on the current kernel.
    meta: &'static str,
    /// Debian suites that have the kernel, separated by commas. The newest version in them is used.
    suites: &'static str,
}

/// The script that keeps a kernel and its modules, the modules, besides those that they need, and their folder.
const KEEP: &str = include_str!("keep.sh");
const WANTED: &str = "veth bonding 8021q bridge macvlan macvtap team team_mode_activebackup virtio_pci virtio_net vmxnet3 e1000 e1000e 8139cp 8139too igb sch_fq sch_ingress cls_matchall act_police tun wireguard \
    xfrm_interface ip_vti ip6_vti esp4 esp6 xfrm_user sha512_generic jitterentropy_rng drbg ctr gcm seqiv ghash-generic ipip sit ip6_tunnel ip_gre ip6_gre fou fou6 vxlan geneve sctp";
const MODULES: &str = "modules";
/// The file with [`WANTED`], in the folder of a kernel.
const WANTED_FILE: &str = "wanted";

/// The machine that counts instructions, the page with its figures, and the line before them.
const COUNTED: &str = "counted";
const FIGURES: &str = "docs/bench/instructions.md";
const HEAD: &str = "| --- | --- | --- | --- |\n";
/// The page with a row for each network card and each interface of software, and the lines before the rows.
const CARDS: &str = "docs/drivers-tested.md";
const CARDS_HEAD: &str = "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
const DEVICES_HEAD: &str = "\n| --- | --- | --- | --- | --- |\n";
/// Environment variable: if set, those pages are written.
const WRITE_DOCS: &str = "LIMITER_WRITE_DOCS";

/// Debian packages to make a boot image, and to boot a kernel, besides the emulator.
const PACKAGES: &str = "binutils busybox debian-archive-keyring iproute2 kmod xz-utils zstd";

/// The packages of a kernel. Before Linux 7, everything is in the first one.
const PARTS: [&str; 3] = ["linux-image-", "linux-binary-", "linux-modules-"];

pub fn names() -> PossibleValuesParser {
    let names = RELEASES.lines().filter_map(|line| line.split(';').next());
    PossibleValuesParser::new(names)
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
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for line in RELEASES.lines() {
        let fields: Vec<_> = line.split(';').collect();
        let &[name, architecture, meta, suites] = &*fields else {
            bail!("releases.txt: {line}");
        };
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            groups.entry(architecture).or_default().push(Release {
                name,
                architecture: Architecture::of(Some(architecture))?,
                meta,
                suites,
            });
        }
    }
    for releases in groups.values() {
        let architecture = releases[0].architecture;
        let packages = format!("{PACKAGES} {}", architecture.emulator);
        debian::ensure(&packages, "testing on other kernels")?;
        // A download mostly waits for Debian's mirror.
        thread::scope(|scope| {
            let programs = scope.spawn(|| image::packages(architecture));
            in_parallel(4, releases.clone(), |release| {
                fetch(release).with_context(|| format!("cannot test Linux {}", release.name))
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

/// Downloads the image and the drivers of a kernel into a folder of its name. An existing folder with the wanted modules
/// is used as it is: delete it to get a newer kernel.
fn fetch(release: Release) -> Result<()> {
    let kept = folder().join(release.name);
    if fs::read_to_string(kept.join(WANTED_FILE)).is_ok_and(|wanted| wanted == WANTED) {
        return Ok(());
    }
    progress(&format!("downloading Debian's kernel {}", release.name));
    let lists = folder().join("apt").join(release.name);
    let suites: Vec<_> = release.suites.split(',').collect();
    let apt = Apt::new(&lists, &suites, release.architecture.debian)?;
    let mut parts = apt.needed(release.meta)?;
    parts.retain(|part| PARTS.iter().any(|start| part.starts_with(start)));
    let tree = paths::scratch()?;
    apt.unpack(&parts, tree.path())?;
    // Copies to a temporary folder first: half a kernel must not look complete.
    let new = kept.with_extension("new");
    let mut keep = Command::new("sh");
    keep.args(["-c", KEEP, "keep"]).arg(&new);
    succeed(keep.args(WANTED.split(' ')).current_dir(tree.path()))?;
    fs::write(new.join(WANTED_FILE), WANTED).context("cannot keep the kernel")?;
    // A folder of an earlier build lacks modules.
    let _ = fs::remove_dir_all(&kept);
    fs::rename(new, kept).context("cannot keep the kernel")
}
