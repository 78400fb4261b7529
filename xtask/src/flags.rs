//! The settings of cargo and rustc for the objects, and the replacements of local folders in them.

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

/// The flags of rustc, except those that contain a folder of this machine.
pub const FLAGS: [&str; 5] = [
    "-Clink-arg=--btf",
    "-Cdebuginfo=2",
    // Without this flag, aya-ebpf uses the host's architecture. An XDP program reads no registers of the CPU.
    "--cfg=bpf_target_arch=\"x86_64\"",
    // Enables 32-bit jumps and arithmetic, and atomic instructions that return a value.
    "-Ctarget-cpu=v3",
    // Addresses in a packet are not aligned. They are loaded as words, not byte by byte, like in the kernel's own code
    // (the verifier knows the CPU's abilities).
    "-Clink-arg=--cpu-features=+alu32,+allows-misaligned-mem-access",
];

/// The replacement of the build folder.
pub const TARGET: &str = "target";

/// The flags as recorded, equal on every machine.
pub fn recorded() -> Vec<String> {
    let local = [
        String::from("-Clinker=bpf-linker"),
        remap("<workspace>", ""),
        remap("<target>", TARGET),
        remap("<crates>", "crates"),
        remap("<rust-src>", "rust"),
    ];
    FLAGS.map(String::from).into_iter().chain(local).collect()
}

/// The flag that makes rustc write `to` for `from`.
pub fn remap(from: &str, replacement: &str) -> String {
    format!("--remap-path-prefix={from}={replacement}")
}

/// The folders from which code is compiled, each with its replacement. If two match, rustc takes the later one: the
/// other folders may lie within the workspace.
pub fn folders(rust: &Rust, target_dir: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let mut folders = vec![(paths::root(), ""), (target_dir.to_path_buf(), TARGET)];
    folders.extend(
        crate_folders(rust)?
            .into_iter()
            .map(|path| (path, "crates")),
    );
    folders.push((rust.source(), "rust"));
    Ok(folders)
}

/// The folders of the downloaded crates. Downloads missing crates.
fn crate_folders(rust: &Rust) -> Result<BTreeSet<PathBuf>> {
    progress("looking up the dependencies of limiter-ebpf");
    let mut command = rust.tool("cargo");
    command.args(["metadata", "--format-version=1", "--locked"]);
    command.args(["--manifest-path", "limiter-ebpf/Cargo.toml"]);
    let metadata: serde_json::Value = serde_json::from_str(&output(&mut command)?)
        .context("cargo metadata printed no JSON: install the pinned Rust anew")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let downloaded = packages.filter(|package| !package["source"].is_null());
    let manifests = downloaded.filter_map(|package| package["manifest_path"].as_str());
    let folders = manifests.filter_map(|manifest| Path::new(manifest).ancestors().nth(2));
    Ok(folders.map(Path::to_path_buf).collect())
}

/// Refuses a file that contains a folder of this machine.
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
