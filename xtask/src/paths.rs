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

/// Where cargo puts what it builds for tests.
pub fn debug() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    // A relative one is relative to the folder that cargo is run in, as by `process::cargo`.
    root().join(target).join("debug")
}

/// Kernels to test on, what they boot from, and what they said.
pub fn kernels() -> PathBuf {
    root().join("target/kernels")
}

/// The command of earlier versions.
pub fn layouts() -> PathBuf {
    root().join("target/layouts")
}

/// Where the code is broken on purpose.
pub fn mutations() -> PathBuf {
    root().join("target/mutations")
}
