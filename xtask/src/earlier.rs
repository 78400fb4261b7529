//! The command of earlier versions, for the tests of the upgrade: built from the commits that
//! `tests/fixtures/layouts.toml` names.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{
    paths,
    process::{cargo, output, progress, run},
};

#[derive(Deserialize)]
struct Layouts {
    layout: Vec<Layout>,
}

/// The last commit of a layout.
#[derive(Deserialize)]
struct Layout {
    version: u32,
    commit: String,
}

/// Builds them all. Returns the variables that tell the tests where they are.
pub fn build() -> Result<Vec<(String, PathBuf)>> {
    let path = paths::root().join("tests/fixtures/layouts.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let layouts: Layouts = toml::from_str(&text).context("tests/fixtures/layouts.toml")?;
    let built = layouts.layout.iter().map(|layout| {
        let binary = layout.build()?;
        Ok((format!("LIMITER_LAYOUT_{}", layout.version), binary))
    });
    built.collect()
}

impl Layout {
    fn build(&self) -> Result<PathBuf> {
        let folder = paths::layouts().join(format!("v{}", self.version));
        let (binary, made_of) = (folder.join("limiter"), folder.join("commit"));
        let is_made = fs::read_to_string(&made_of).is_ok_and(|commit| commit == self.commit);
        if is_made && binary.exists() {
            return Ok(binary);
        }
        progress(&format!(
            "building limiter as it was with layout {} ({})",
            self.version, self.commit
        ));
        let (source, target) = (folder.join("source"), folder.join("target"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&source)?;
        self.unpack(&source)?;
        lend_dependencies(&target)?;
        let mut build = cargo();
        build.current_dir(&source).args(BUILD);
        run(build.arg("--target-dir").arg(&target))?;
        fs::copy(target.join("debug/limiter"), &binary).context("copying the command")?;
        // The rest takes a gigabyte.
        fs::remove_dir_all(&target)?;
        fs::remove_dir_all(&source)?;
        fs::write(made_of, &self.commit)?;
        Ok(binary)
    }

    fn unpack(&self, source: &Path) -> Result<()> {
        let commit = &self.commit;
        let is_here = git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_ok();
        // What is checked out for a build has the last commit alone.
        if !is_here && let Err(error) = git(&["fetch", "--depth", "1", "origin", commit]) {
            bail!("commit {commit} is not in this clone, and cannot be fetched: {error:#}");
        }
        let archive = tempfile::NamedTempFile::new().context("no temporary file: set TMPDIR")?;
        let path = archive.path().to_str().context("a strange TMPDIR")?;
        git(&["archive", "--format=tar", "--output", path, commit])?;
        let mut tar = Command::new("tar");
        run(tar
            .arg("--extract")
            .arg("--file")
            .arg(path)
            .arg("-C")
            .arg(source))
    }
}

const BUILD: [&str; 7] = [
    "build",
    "--quiet",
    "--locked",
    "--package",
    "limiter-user",
    "--bin",
    "limiter",
];

fn git(arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    output(git.current_dir(paths::root()).args(arguments))
}

/// What both versions depend on is built once: today's, which the tests need anyway, and then linked to where
/// the earlier one's is looked for. What is not the same there cargo builds anew.
fn lend_dependencies(target: &Path) -> Result<()> {
    let own = paths::debug();
    if !own.join("limiter").exists() {
        run(cargo().args(BUILD))?;
    }
    for kind in [".fingerprint", "build", "deps"] {
        let from = own.join(kind);
        if from.is_dir() {
            link(&from, &target.join("debug").join(kind), is_foreign)?;
        }
    }
    Ok(())
}

/// Whether it is of a dependency: what is this project's own has the same name in both versions.
fn is_foreign(name: &str) -> bool {
    let name = name.strip_prefix("lib").unwrap_or(name);
    !["limiter", "xtask"].iter().any(|own| name.starts_with(own)) && !name.contains(".rcgu.")
}

/// Makes hard links of the files in a folder.
fn link(from: &Path, to: &Path, which: fn(&str) -> bool) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(which) {
            continue;
        }
        let to = to.join(&name);
        if entry.file_type()?.is_dir() {
            link(&entry.path(), &to, |_| true)?;
        } else {
            fs::hard_link(entry.path(), &to)
                .with_context(|| format!("linking {}", to.display()))?;
        }
    }
    Ok(())
}
