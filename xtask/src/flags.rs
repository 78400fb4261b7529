//! How cargo and rustc are told to compile, and what stands in the objects for local folders.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    paths,
    process::{output, progress},
    toolchain::Rust,
};

/// The arguments of every cargo command on `limiter-ebpf`.
pub const CARGO: [&str; 3] = ["--release", "--locked", "-Zbuild-std=core"];

/// The flags of rustc, but for those with a folder of this machine in them.
pub const FLAGS: [&str; 3] = [
    "-Clink-arg=--btf",
    "-Cdebuginfo=2",
    // aya-ebpf takes the host's otherwise, and an XDP program reads no registers of the CPU.
    "--cfg=bpf_target_arch=\"x86_64\"",
];

/// How code is generated.
pub const CODE: [&str; 2] = [
    // 32-bit jumps and arithmetic, and atomic instructions that return a value.
    "-Ctarget-cpu=v3",
    // Addresses in a packet lie where they lie: loaded as words, not byte by byte, as the kernel's
    // own code does (the verifier knows what the CPU can do).
    "-Clink-arg=--cpu-features=+alu32,+allows-misaligned-mem-access",
];

// What stands for the folders of this machine.
const WORKSPACE: &str = "";
/// For where it is compiled.
pub const TARGET: &str = "target";
const CRATES: &str = "crates";
const RUST_SRC: &str = "rust";

/// The flags as they are recorded: the same on every machine.
pub fn recorded() -> Vec<String> {
    let local = [
        String::from("-Clinker=bpf-linker"),
        remap("<workspace>", WORKSPACE),
        remap("<target>", TARGET),
        remap("<crates>", CRATES),
        remap("<rust-src>", RUST_SRC),
    ];
    let fixed = FLAGS.into_iter().chain(CODE).map(String::from);
    fixed.chain(local).collect()
}

/// The flag that has rustc write `to` for `from`.
pub fn remap(from: &str, to: &str) -> String {
    format!("--remap-path-prefix={from}={to}")
}

/// Each folder from which code is compiled, with what stands for it. Where two match, rustc takes
/// the later one: the others may lie within the workspace.
pub fn folders(rust: &Rust, target_dir: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let mut folders = vec![
        (paths::root(), WORKSPACE),
        (target_dir.to_path_buf(), TARGET),
    ];
    folders.extend(crate_folders(rust)?.into_iter().map(|path| (path, CRATES)));
    folders.push((rust.source(), RUST_SRC));
    Ok(folders)
}

/// The folders that hold the downloaded crates; their names carry that of a host. Downloads what is
/// missing.
fn crate_folders(rust: &Rust) -> Result<BTreeSet<PathBuf>> {
    progress("looking up the dependencies of limiter-ebpf");
    let mut command = rust.cargo();
    command.args(["metadata", "--format-version=1", "--locked"]);
    command.arg("--manifest-path").arg(paths::ebpf_manifest());
    let metadata: serde_json::Value = serde_json::from_str(&output(&mut command)?)
        .context("cargo metadata printed no JSON: install the pinned Rust anew")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let downloaded = packages.filter(|package| !package["source"].is_null());
    let manifests = downloaded.filter_map(|package| package["manifest_path"].as_str());
    let folders = manifests.filter_map(|manifest| Path::new(manifest).ancestors().nth(2));
    Ok(folders.map(Path::to_path_buf).collect())
}

/// Refuses a file with a folder of this machine in it.
pub fn refuse_local_paths(file: &Path, folders: &[(PathBuf, &'static str)]) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    for (folder, _) in folders {
        let needle = folder.as_os_str().as_encoded_bytes();
        if bytes.windows(needle.len()).any(|window| window == needle) {
            bail!("{} contains {}: remap it", file.display(), folder.display());
        }
    }
    Ok(())
}
