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

/// The manifest of the BPF workspace.
pub fn ebpf_manifest() -> PathBuf {
    root().join("limiter-ebpf/Cargo.toml")
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

/// The folder of intermediate files of the BPF builds.
pub fn ebpf_target() -> PathBuf {
    target().join("ebpf")
}

/// The folder of tools for this checkout. The developer's own tools do not change.
pub fn tools() -> PathBuf {
    target().join("tools")
}

/// The folder of cargo's builds for tests.
pub fn debug() -> PathBuf {
    target().join("debug")
}

/// The folder of test kernels, their boot images, and their logs.
pub fn kernels() -> PathBuf {
    target().join("kernels")
}

/// The folder of the copies of the code for mutations.
pub fn mutations() -> PathBuf {
    target().join("mutations")
}

/// The folder of the fuzzer's output.
pub fn fuzz() -> PathBuf {
    target().join("fuzz")
}

/// The folder of the packages and their parts.
pub fn dist() -> PathBuf {
    target().join("dist")
}

#[cfg(test)]
mod tests {
    use std::{env, path::Path};

    use super::{debug, dist, ebpf_target, fuzz, kernels, mutations, target_of, tools};

    #[test]
    fn everything_is_built_in_the_target_folder_of_cargo() {
        let test = env::current_exe().unwrap();
        for folder in [
            debug(),
            dist(),
            ebpf_target(),
            fuzz(),
            kernels(),
            mutations(),
            tools(),
        ] {
            assert!(test.starts_with(folder.parent().unwrap()), "{folder:?}");
        }
        for program in ["/elsewhere/debug/xtask", "/elsewhere/debug/deps/xtask-0a"] {
            let target = target_of(Path::new(program));
            assert_eq!(target.as_deref(), Some(Path::new("/elsewhere")));
        }
    }
}
