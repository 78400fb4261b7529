//! Where things are in the repository.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The folder of the root workspace.
///
/// Without symbolic links, as rustc writes its working directory that way: the remapping of paths
/// compares text.
pub fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR");
    let xtask = manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = xtask.parent().unwrap_or(Path::new("."));
    fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf())
}

/// The manifest of the BPF workspace.
pub fn ebpf_manifest() -> PathBuf {
    root().join("limiter-ebpf/Cargo.toml")
}

/// The committed objects and their record.
pub fn prebuilt() -> PathBuf {
    root().join("limiter-ebpf/prebuilt")
}

/// Intermediate files of the BPF builds.
pub fn ebpf_target() -> PathBuf {
    root().join("target/ebpf")
}

/// Where tools are installed for this checkout alone, so that nobody's own tools change.
pub fn tools() -> PathBuf {
    root().join("target/tools")
}

/// Kernels to test on, what they boot from, and what they said.
pub fn kernels() -> PathBuf {
    root().join("target/kernels")
}
