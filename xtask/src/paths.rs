//! Paths in the repository.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// The folder of the root workspace.
///
/// Without symbolic links, because rustc writes its working directory that way, and the remapping of paths compares
/// text.
pub fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR");
    let xtask = manifest.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = xtask.parent().unwrap_or(Path::new("."));
    fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf())
}

/// All files below `folder`, sorted, without build results.
pub fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot list {}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if !path.is_dir() {
            files.push(path);
        } else if path.file_name().is_none_or(|name| name != "target") {
            files.extend(files_in(&path)?);
        }
    }
    files.sort();
    Ok(files)
}

/// All Rust files below `folder`, with their texts.
pub fn sources_in(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = files_in(folder)?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path, text))
    };
    files.into_iter().map(read).collect()
}

/// A folder that is deleted when it is dropped.
pub fn scratch() -> Result<TempDir> {
    tempfile::tempdir().context("cannot create a temporary folder: set TMPDIR")
}

/// The folders of the host's packages and of the BPF program.
pub const CRATES: [&str; 11] = [
    "limiter-common",
    "limiter-config",
    "limiter-ebpf",
    "limiter-feed",
    "limiter-fleet",
    "limiter-kernel",
    "limiter-lists",
    "limiter-specialise",
    "limiter-user",
    "tests",
    "xtask",
];

/// The folder of the committed objects and their record.
pub fn prebuilt() -> PathBuf {
    root().join("limiter-ebpf/prebuilt")
}

/// The folder of build results: `target`, or the folder set by CARGO_TARGET_DIR or cargo's configuration. Found from
/// the path of this program, which cargo built there.
pub fn target() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    // The program is in `TARGET/PROFILE`, or in `TARGET/PROFILE/deps` if it is a test.
    let folders = program.ancestors().skip(1);
    let mut above = folders
        .skip_while(|folder| folder.ends_with("deps"))
        .skip(1);
    above
        .next()
        .map_or_else(|| root().join("target"), Path::to_path_buf)
}
