//! `cargo xtask dist --check`: does the same commit make the same bytes elsewhere?

use std::{fs, path::Path, process::Command};

use anyhow::{Result, bail};

use crate::{
    paths,
    process::{progress, run},
};

/// Makes everything of the last commit once more, in another folder, and compares.
pub fn same_elsewhere(out: &Path) -> Result<()> {
    let scratch = paths::scratch()?;
    let copy = scratch.path().join("limiter");
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--shared"]);
    run(clone.arg(paths::root()).arg(&copy))?;
    progress("once more, in a copy of the last commit");
    let again = scratch.path().join("out");
    let mut dist = Command::new("cargo");
    dist.args(["xtask", "dist", "--out"]).arg(&again);
    // The outer cargo has set where this package is. The second build has a target folder of its own.
    for name in ["CARGO_MANIFEST_DIR", "CARGO", "CARGO_TARGET_DIR"] {
        dist.env_remove(name);
    }
    run(dist.current_dir(&copy))?;
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
    progress("the same byte for byte");
    Ok(())
}
