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

use super::{MODULES, Release, folder};
use crate::{
    artifacts::{self, Program},
    paths,
    process::{cargo, output, progress, run},
};

/// The tested command.
const COMMAND: &str = "limiter";
/// Other programs that the tests and `init.sh` call.
const PROGRAMS: &str = "busybox bpftool ethtool ip iperf3 tc teamnl wg xdp-loader";
/// The objects that `xdp-loader` loads.
const LIBXDP: &str = "/usr/lib/x86_64-linux-gnu/bpf";
/// The first process, with the tests to run.
const INIT: &str = include_str!("init.sh");

/// Makes the boot image for these kernels.
pub fn make(releases: &[Release]) -> Result<PathBuf> {
    let programs = build()?;
    let tree = folder().join("tree");
    let _ = fs::remove_dir_all(&tree);
    for folder in ["bin", "targets"] {
        fs::create_dir_all(tree.join(folder))
            .with_context(|| format!("cannot create {}", tree.display()))?;
    }
    for program in &programs {
        let folder = if program.name() == COMMAND {
            "bin"
        } else {
            "targets"
        };
        let place = tree.join(folder).join(program.name());
        // Removes debug information: the archive is copied into the machine's memory, and is ten times smaller without
        // it.
        run(Command::new("strip")
            .arg("-o")
            .args([&place, &program.file]))?;
        copy_libraries(&program.file, &tree)?;
    }
    for program in PROGRAMS.split(' ') {
        let mut which = Command::new("sh");
        which.args([
            "-c",
            "PATH=$PATH:/usr/sbin:/sbin; command -v \"$0\"",
            program,
        ]);
        let found = output(&mut which).with_context(|| format!("install {program}"))?;
        let found = Path::new(found.trim());
        fs::copy(found, tree.join("bin").join(program))?;
        copy_libraries(found, &tree)?;
    }
    symlink("busybox", tree.join("bin/sh"))?;
    for release in releases {
        let modules = tree.join("modules").join(release.name);
        fs::create_dir_all(&modules)?;
        for module in paths::files_in(&folder().join(release.name).join(MODULES))? {
            fs::copy(
                &module,
                modules.join(module.file_name().unwrap_or_default()),
            )?;
        }
    }
    // The path stays the same, because the tests were compiled with it.
    let data = ["tests/fixtures", "limiter-ebpf/prebuilt"].map(|part| paths::root().join(part));
    copy(&data, &tree)?;
    copy(&[LIBXDP], &tree)?;
    symlink(paths::root().join("tests"), tree.join("tests"))?;
    let init = tree.join("init");
    fs::write(&init, INIT)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    let image = folder().join("initramfs.cpio");
    let archive = "find . | busybox cpio -o -H newc 2>/dev/null >\"$0\"";
    let mut shell = Command::new("sh");
    run(shell.args(["-c", archive]).arg(&image).current_dir(&tree))?;
    Ok(image)
}

/// Builds the test programs and the command.
fn build() -> Result<Vec<Program>> {
    progress("building the tests");
    // Builds the whole workspace, like `cargo xtask test`. Other features would lead to other builds.
    let mut tests = cargo();
    tests.args(["test", "--quiet", "--workspace", "--locked", "--no-run"]);
    let mut wanted = vec![COMMAND];
    wanted.extend(targets());
    // A machine of drivers runs more tests of a file than the others.
    wanted.sort_unstable();
    wanted.dedup();
    for target in wanted.iter().filter(|&&wanted| wanted != COMMAND) {
        tests.args(["--test", target]);
    }
    // Cargo builds the command along with a test of its package.
    tests.args(["--test", "sandbox"]);
    let mut built = artifacts::build(&mut tests)?;
    built.retain(|program| wanted.contains(&program.name()));
    if built.len() != wanted.len() {
        let names: Vec<_> = built.iter().map(Program::name).collect();
        bail!("cargo built only {}", names.join(", "));
    }
    Ok(built)
}

/// The names of the test files that `init.sh` runs.
fn targets() -> impl Iterator<Item = &'static str> {
    let lines = INIT.lines().map(str::trim_start);
    lines.filter_map(|line| line.strip_prefix("target ")?.split(' ').next())
}

/// Copies the libraries of `program` to the paths where the program looks for them.
fn copy_libraries(program: &Path, tree: &Path) -> Result<()> {
    // A static program has no libraries, and ldd fails.
    let listed = output(Command::new("ldd").arg(program)).unwrap_or_default();
    let words = listed.split_whitespace();
    let libraries: Vec<_> = words.filter(|word| word.starts_with('/')).collect();
    copy(&libraries, tree)
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
