//! Programs of other releases of Debian, which run here with the libraries of their release. Nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::plan::Row;
use crate::{
    apt::Apt,
    paths,
    process::{progress, run},
    processors::Architecture,
};

/// The packages of a row, unpacked.
pub struct Unpacked {
    /// The folder of its programs.
    pub programs: PathBuf,
    /// The version of the first package.
    pub version: String,
}

/// Unpacks the packages of a row, and all that they need, below the folder of build results.
pub fn unpack(row: &Row) -> Result<Unpacked> {
    let folder = paths::target().join("stores").join(row.name);
    if !folder.exists() {
        progress(&format!("unpacking {} of {}", row.packages, row.release));
        // Half a package must not look complete.
        let new = folder.with_extension("new");
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new)?;
        let lists = paths::target().join("stores/lists").join(row.release);
        let apt = Apt::new(&lists, &[row.release], Architecture::of(None)?.debian)?;
        let (own, needed) = (new.join("own"), new.join("needed"));
        let packages: Vec<_> = row.packages.split(' ').collect();
        apt.unpack(&packages, &own)?;
        apt.unpack(&apt.needed(row.packages)?, &needed)?;
        let version = apt.version(packages[0])?;
        fs::write(new.join("version"), version)?;
        let (loader, libraries) = libraries(&needed)?;
        let moved = |path: &Path| {
            let inside = path.strip_prefix(&new).unwrap_or(path);
            folder.join(inside).display().to_string()
        };
        let libraries: Vec<_> = libraries.iter().map(|folder| moved(folder)).collect();
        for program in paths::files_in(&own.join(row.programs))? {
            if is_program(&program)? {
                let mut patch = Command::new("patchelf");
                patch.args(["--set-interpreter", &moved(&loader)]);
                patch.args(["--force-rpath", "--set-rpath", &libraries.join(":")]);
                run(patch.arg(program))?;
            }
        }
        fs::rename(&new, &folder)?;
    }
    let version = fs::read_to_string(folder.join("version")).context("a version")?;
    let programs = folder.join("own").join(row.programs);
    Ok(Unpacked { programs, version })
}

/// The loader of programs in these packages, and the folders with libraries.
fn libraries(root: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    let mut loader = None;
    let mut folders = Vec::new();
    for file in paths::files_in(root)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let folder = file.parent().unwrap_or(root).to_path_buf();
        if name.starts_with("ld-linux") && !file.is_symlink() {
            loader = Some(file.clone());
        }
        if name.starts_with("lib") && name.contains(".so") && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    Ok((
        loader.context("no loader of programs in the packages")?,
        folders,
    ))
}

/// True for a file that the loader of programs can start, and not for a link to one.
fn is_program(file: &Path) -> Result<bool> {
    Ok(!file.is_symlink() && fs::read(file)?.starts_with(b"\x7fELF"))
}
