//! Makes the boot image of the virtual machines: an archive in memory with a shell, the command, the tests and their
//! libraries.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::release::{MODULES, Release, folder};
use crate::{
    apt::Apt,
    artifacts::{self, Program},
    debian, paths,
    process::{cargo, progress, run},
    processors::Architecture,
    suites::{KERNEL, WITH_THE_COMMAND},
};

/// The tested command.
const COMMAND: &str = "limiter";
/// Other programs that the tests and `init.sh` call, their packages, and the script that copies them.
const PROGRAMS: &str = "busybox bpftool chrt ethtool ip iperf3 tc teamnl wg xdp-loader";
const PACKAGES: &str =
    "busybox bpftool ethtool iproute2 iperf3 libteam-utils util-linux wireguard-tools xdp-tools";
const COPY: &str = include_str!("programs.sh");
/// The first process, with the tests to run.
const INIT: &str = include_str!("init.sh");

/// The boot image of the kernels of a processor.
pub fn path(architecture: Architecture) -> PathBuf {
    folder().join(format!("{}.cpio", architecture.debian))
}

/// Makes the boot image of `architecture`, for these kernels.
pub fn make(architecture: Architecture, releases: &[Release]) -> Result<()> {
    let programs = build(architecture)?;
    let tree = folder().join(format!("tree-{}", architecture.debian));
    let _ = fs::remove_dir_all(&tree);
    let bin = tree.join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", tree.display()))?;
    for program in &programs {
        let place = match program.name() {
            COMMAND => bin.join(COMMAND),
            _ => tree.join("tests-of-the-kernel"),
        };
        // Removes debug information: the archive is copied into the machine's memory, and is ten times smaller without
        // it.
        let mut strip = Command::new(format!("{}-strip", architecture.gnu()));
        run(strip.arg("-o").args([&place, &program.file]))?;
    }
    let mut copy_programs = Command::new("sh");
    let gnu = architecture.gnu();
    copy_programs.args(["-c", COPY, "programs", &gnu]);
    copy_programs.arg(&tree).args(PROGRAMS.split(' '));
    run(copy_programs.current_dir(packages(architecture)?))?;
    symlink("busybox", tree.join("bin/sh"))?;
    for release in releases {
        let modules = tree.join("modules").join(release.name);
        fs::create_dir_all(&modules)?;
        for module in paths::files_in(&folder().join(release.name).join(MODULES))? {
            let name = module.file_name().unwrap_or_default();
            fs::copy(&module, modules.join(name))?;
        }
    }
    // The path stays the same, because the tests were compiled with it.
    let data = ["tests/fixtures", "limiter-ebpf/prebuilt"].map(|part| paths::root().join(part));
    copy(&data, &tree)?;
    symlink(paths::root().join("tests"), tree.join("tests"))?;
    let init = tree.join("init");
    fs::write(&init, INIT)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let archive = "find . | busybox cpio -o -H newc 2>/dev/null >\"$0\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", archive]).arg(path(architecture));
    run(shell.current_dir(&tree))
}

/// Builds the test programs and the command.
fn build(architecture: Architecture) -> Result<Vec<Program>> {
    progress(&format!("building the tests for {}", architecture.name));
    let mut tests = cargo();
    tests.args(["test", "--quiet", "--locked", "--no-run"]);
    if architecture.is_native() {
        // Builds the whole workspace, like `cargo xtask test`. Other features would lead to other builds.
        tests.arg("--workspace");
    } else {
        run(Command::new("rustup").args(["target", "add", architecture.target]))?;
        architecture.cross(&mut tests)?;
        tests.args(["-p", "limiter-user", "-p", "limiter-tests"]);
    }
    tests.args(["--test", KERNEL, "--test", WITH_THE_COMMAND]);
    let mut built = artifacts::build(&mut tests)?;
    built.retain(|program| [COMMAND, KERNEL].contains(&program.name()));
    if built.len() != 2 {
        let names: Vec<_> = built.iter().map(Program::name).collect();
        bail!("cargo built only {}", names.join(", "));
    }
    Ok(built)
}

/// The folder of the unpacked packages with [`PROGRAMS`], and of those that they need. Unpacks them if it is missing.
pub fn packages(architecture: Architecture) -> Result<PathBuf> {
    let kept = folder().join(format!("programs-{}", architecture.debian));
    if !kept.exists() {
        let name = architecture.name;
        progress(&format!("unpacking Debian's programs for {name}"));
        let lists = folder().join("apt").join(architecture.debian);
        let apt = Apt::new(&lists, &[debian::release()?], architecture.debian)?;
        let new = kept.with_extension("new");
        apt.unpack(&apt.needed(PACKAGES)?, &new)?;
        fs::rename(new, &kept)?;
    }
    Ok(kept)
}

/// Copies files and folders to the same paths in `tree`.
fn copy(paths: &[impl AsRef<OsStr>], tree: &Path) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut copy = Command::new("cp");
    copy.args(["--recursive", "--dereference", "--parents"]);
    run(copy.args(paths).arg(tree))
}
