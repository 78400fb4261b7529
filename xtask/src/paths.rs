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

/// The folder of the committed objects and their record.
pub fn prebuilt() -> PathBuf {
    root().join("limiter-ebpf/prebuilt")
}

/// The folder of build results: `target`, or the folder set by CARGO_TARGET_DIR or cargo's configuration. Found from
/// the path of this program, which cargo built there.
pub fn target() -> PathBuf {
    let built = env::current_exe().ok();
    let target = built.as_deref().and_then(target_of);
    target.unwrap_or_else(|| root().join("target"))
}

/// The target folder of a program in `TARGET/PROFILE`, or of a test in `TARGET/PROFILE/deps`.
fn target_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let profile = match folder.ends_with("deps") {
        true => folder.parent()?,
        false => folder,
    };
    profile.parent().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::target_of;

    #[test]
    fn the_target_folder_is_that_of_the_program() {
        for program in ["/elsewhere/debug/xtask", "/elsewhere/debug/deps/xtask-0a"] {
            let target = target_of(Path::new(program));
            assert_eq!(target.as_deref(), Some(Path::new("/elsewhere")));
        }
    }
}
