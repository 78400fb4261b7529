//! `cargo xtask build-ebpf`: the committed objects, made anew.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::{compile::Compiler, objects, paths, process::progress, record::Record, tools::Tools};

/// Builds the objects into the tree and writes down what they are made of.
pub fn run() -> Result<()> {
    let tools = Tools::set_up()?;
    let compiler = Compiler::new(&tools, tools.target_dir())?;
    // Elsewhere first: as long as the sources do not compile, the old objects are of use.
    let scratch = paths::scratch()?;
    compiler.compile_all(scratch.path())?;
    replace_with(scratch.path()).context("cannot write limiter-ebpf/prebuilt, delete it")?;
    Record::of_tree(&tools)?.write()?;
    progress("limiter-ebpf/prebuilt is up to date");
    Ok(())
}

/// Replaces all objects: one that is no longer built must not stay.
fn replace_with(new: &Path) -> Result<()> {
    let folder = paths::prebuilt();
    fs::create_dir_all(&folder)?;
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "o") {
            fs::remove_file(path)?;
        }
    }
    for file in objects::files() {
        fs::copy(new.join(&file), folder.join(&file))?;
    }
    Ok(())
}
