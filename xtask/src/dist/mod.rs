//! `cargo xtask dist`: builds the release files. The same commit makes the same bytes on every machine.

mod binary;
mod image;
mod packages;
mod tree;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use self::binary::Binary;
use crate::{
    debian, digest, paths,
    process::{output, progress, run as succeed, step},
    processors::Architecture,
};

/// The version of all packages of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes a file of the binary in a folder, with a folder for the work. Returns the file's name.
type Pack = fn(&Binary, &Path, &Path, u64) -> Result<String>;

#[derive(Args)]
pub struct Options {
    /// Output folder; without it, dist in the target folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The processor of the files; without it, this machine's
    #[arg(long, value_name = "NAME", value_parser = ["x86_64", "aarch64"])]
    architecture: Option<String>,
    /// Pack this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Compress fast: for tests, whose binary is large
    #[arg(long, requires = "binary")]
    fast: bool,
    /// Make everything twice, the second time in a copy of the last commit elsewhere, and compare
    #[arg(long, conflicts_with = "binary")]
    check: bool,
}

/// Makes all files, and prints their folder.
pub fn run(options: &Options) -> Result<()> {
    for tool in ["dpkg-deb", "rpmbuild"] {
        if output(Command::new(tool).arg("--version")).is_err() {
            debian::ensure("dpkg rpm", "packing")?;
        }
    }
    let out = options
        .out
        .clone()
        .unwrap_or_else(|| paths::target().join("dist"));
    make(&out, options)?;
    if options.check {
        check_reproducible(&out, options)?;
    }
    progress(&format!("see {}", out.display()));
    Ok(())
}

fn make(out: &Path, options: &Options) -> Result<()> {
    let epoch = epoch()?;
    let architecture = Architecture::of(options.architecture.as_deref())?;
    let file = match &options.binary {
        Some(binary) => binary.clone(),
        None => binary::build(architecture)?,
    };
    let binary = Binary {
        file,
        architecture,
        level: if options.fast { 1 } else { 9 },
    };
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    // rpm needs absolute paths.
    let out = fs::canonicalize(out)?;
    let scratch = paths::scratch()?;
    let packed = |name, pack: Pack| step(name, || pack(&binary, scratch.path(), &out, epoch));
    let files = [
        packed("packing the tarball", packages::tarball)?,
        packed("packing the .deb", packages::deb)?,
        packed("packing the .rpm", packages::rpm)?,
        packed("packing the image", image::image)?,
    ];
    let sums = digest::digests(&files, &out)?;
    let sums: String = sums
        .iter()
        .map(|(file, sum)| format!("{sum}  {file}\n"))
        .collect();
    fs::write(out.join("SHA256SUMS"), sums).context("cannot write SHA256SUMS")
}

/// The time of the last commit, in seconds since 1970. All times in the packages have this value.
fn epoch() -> Result<u64> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"])
        .current_dir(paths::root());
    let time = env::var("SOURCE_DATE_EPOCH").or_else(|_| output(&mut git));
    let time = time.context("no time for the packages: set SOURCE_DATE_EPOCH")?;
    let seconds = time.trim().parse();
    seconds.context("SOURCE_DATE_EPOCH is no number of seconds")
}

/// Makes all files from the last commit once more, in another folder, and compares them.
fn check_reproducible(out: &Path, options: &Options) -> Result<()> {
    let scratch = paths::scratch()?;
    let copy = scratch.path().join("limiter");
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--shared"]);
    succeed(clone.arg(paths::root()).arg(&copy))?;
    progress("building again, in a copy of the last commit");
    let again = scratch.path().join("out");
    let mut dist = Command::new("cargo");
    dist.args(["xtask", "dist", "--out"]).arg(&again);
    if let Some(name) = &options.architecture {
        dist.args(["--architecture", name]);
    }
    // The outer cargo has set the folder of this package. The second build has a target folder of its own.
    for name in ["CARGO_MANIFEST_DIR", "CARGO", "CARGO_TARGET_DIR"] {
        dist.env_remove(name);
    }
    succeed(dist.current_dir(&copy))?;
    for entry in fs::read_dir(&again)? {
        let file = entry?.file_name();
        if fs::read(again.join(&file))? != fs::read(out.join(&file))? {
            bail!(
                "{} is not the same from {}: is everything committed?",
                file.to_string_lossy(),
                copy.display()
            );
        }
    }
    progress("both builds are identical");
    Ok(())
}
