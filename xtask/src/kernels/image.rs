//! Makes the boot image of the virtual machines: an archive in memory with a shell, the command, the tests and their
//! libraries.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::{
    fetch::Kernel,
    plan::{self, TARGETS},
};
use crate::{
    artifacts, paths,
    process::{cargo, output, progress, run},
};

/// Maximum time of a target under emulation, in seconds.
const TARGET_SECONDS: u32 = 240;
/// The tested command.
const COMMAND: &str = "limiter";
/// Other programs that the tests call.
const PROGRAMS: [&str; 2] = ["bpftool", "ip"];

/// Makes the boot image for these kernels.
pub fn make(kernels: &[Kernel]) -> Result<PathBuf> {
    let tests = build_tests()?;
    let tree = paths::kernels().join("tree");
    let _ = fs::remove_dir_all(&tree);
    for folder in ["bin", "targets", "plans", "modules"] {
        fs::create_dir_all(tree.join(folder))
            .with_context(|| format!("cannot create {}", tree.display()))?;
    }
    for (name, program) in &tests {
        let place = match name.as_str() {
            COMMAND => tree.join("bin").join(COMMAND),
            _ => tree.join("targets").join(name),
        };
        // Removes debug information: the archive is copied into the machine's memory, and is ten times smaller without
        // it.
        run(Command::new("strip").arg("-o").args([&place, program]))?;
        copy_libraries(program, &tree)?;
    }
    for program in ["busybox"].iter().chain(&PROGRAMS) {
        let found = which(program)?;
        fs::copy(&found, tree.join("bin").join(program))?;
        copy_libraries(&found, &tree)?;
    }
    symlink("busybox", tree.join("bin/sh"))?;
    for kernel in kernels {
        let folder = tree.join("modules").join(kernel.release.name);
        fs::create_dir_all(&folder)?;
        for module in &kernel.modules {
            fs::copy(module, folder.join(module.file_name().unwrap_or_default()))?;
        }
    }
    for part in ["tests/fixtures", "limiter-ebpf/prebuilt"] {
        copy_folder(&paths::root().join(part), &tree)?;
    }
    let folder = paths::root().join("tests");
    let script = plan::script(&folder.to_string_lossy(), TARGET_SECONDS);
    fs::write(tree.join("plans/tests"), script)?;
    fs::write(
        tree.join("plans").join(plan::REFUSAL),
        plan::refusal_script(),
    )?;
    let init = tree.join("init");
    fs::write(&init, include_str!("init.sh"))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    archive(&tree)
}

/// Builds the test programs and the command. Returns them by name.
fn build_tests() -> Result<BTreeMap<String, PathBuf>> {
    progress("building the tests");
    // Builds the whole workspace, like `cargo xtask test`. Other features would lead to other builds.
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--no-run"]);
    for target in &TARGETS {
        tests.args(["--test", target.name]);
    }
    // With a test of its own package, cargo also builds the command.
    tests.args(["--test", "text_properties"]);
    let built = artifacts::build(tests.arg("--quiet"))?;
    let mut built: BTreeMap<_, _> = built
        .into_iter()
        .map(|program| (program.name, program.file))
        .collect();
    built.retain(|name, _| name == COMMAND || TARGETS.iter().any(|target| target.name == name));
    if built.len() != TARGETS.len() + 1 {
        let names: Vec<_> = built.keys().map(String::as_str).collect();
        bail!("cargo built only {}", names.join(", "));
    }
    Ok(built)
}

fn which(program: &str) -> Result<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
    let mut places = folders.iter().map(|folder| Path::new(folder).join(program));
    let found = places.find(|place| place.exists());
    found.with_context(|| format!("{program} is needed: install it"))
}

/// Copies the libraries of `program` to the paths where the program looks for them.
fn copy_libraries(program: &Path, tree: &Path) -> Result<()> {
    // A static program has no libraries, and ldd fails.
    let listed = output(Command::new("ldd").arg(program)).unwrap_or_default();
    for library in listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let place = inside(tree, Path::new(library));
        if !place.exists() {
            create_parent(&place)?;
            fs::copy(library, &place)?;
        }
    }
    Ok(())
}

/// Copies `folder` to the same path in `tree`, because the tests were compiled with that path.
fn copy_folder(folder: &Path, tree: &Path) -> Result<()> {
    let place = inside(tree, folder);
    create_parent(&place)?;
    run(Command::new("cp").arg("-r").args([folder, &place]))
}

fn inside(tree: &Path, path: &Path) -> PathBuf {
    tree.join(path.strip_prefix("/").unwrap_or(path))
}

fn create_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))
}

fn archive(tree: &Path) -> Result<PathBuf> {
    let image = paths::kernels().join("initramfs.cpio");
    let mut find = Command::new("find");
    let mut find = find
        .arg(".")
        .current_dir(tree)
        .stdout(Stdio::piped())
        .spawn()?;
    let names = find.stdout.take().context("find has no output")?;
    let mut cpio = Command::new("busybox");
    cpio.args(["cpio", "-o", "-H", "newc"]).current_dir(tree);
    cpio.stdin(names)
        .stdout(fs::File::create(&image)?)
        .stderr(Stdio::null());
    run(&mut cpio)?;
    find.wait()?;
    Ok(image)
}
