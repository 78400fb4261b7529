//! `cargo xtask build-ebpf`: the committed objects, made anew; with `--check`, whether the sources still make them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{compile::Compiler, objects, paths, process::progress, record::Record, tools::Tools};

/// Builds the objects into the tree and writes down what they are made of.
pub fn build() -> Result<()> {
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

/// Compares hashes always, and bytes wherever the pinned tools are, which `strict` installs.
pub fn check(strict: bool) -> Result<()> {
    let record = compare_hashes()?;
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(_) if strict => Tools::set_up()?,
        Err(reason) => {
            warn(&format!("{reason:#}"));
            return Ok(());
        }
    };
    compare_bytes(&record, &tools, strict)
}

/// Compares hashes only, which takes no time.
pub fn compare_hashes() -> Result<Record> {
    let record = Record::read()?;
    let differences = record.differences()?.join(", ");
    if !differences.is_empty() {
        bail!("the prebuilt objects do not match {differences}: run: cargo xtask build-ebpf");
    }
    Ok(record)
}

fn warn(unproved: &str) {
    progress(&format!("WARNING: ONLY HASHES WERE COMPARED: {unproved}"));
    progress("to compare byte for byte: cargo xtask build-ebpf --check --strict");
}

fn compare_bytes(record: &Record, tools: &Tools, strict: bool) -> Result<()> {
    let scratch = paths::scratch()?;
    // Strictly means from nothing; otherwise what was compiled before is as good and much faster.
    let target_dir = match strict {
        true => scratch.path().join("target"),
        false => tools.target_dir(),
    };
    let rebuilt = scratch.path().join("objects");
    Compiler::new(tools, target_dir)?.compile_all(&rebuilt)?;
    let Some(file) = first_difference(&rebuilt)? else {
        progress("the objects were rebuilt, and are the same byte for byte");
        return Ok(());
    };
    let kept = keep(&rebuilt);
    let (then, now) = (&record.bpf_linker.llvm, &tools.linker.llvm);
    let made = format!("see what was made instead in {}", kept.display());
    if then == now {
        bail!("{file} is not what its sources make: {made}; run: cargo xtask build-ebpf");
    }
    let why = format!("{file} was made with LLVM {then}, and LLVM {now} makes other bytes: {made}");
    if strict {
        bail!("{why}; run: cargo xtask build-ebpf");
    }
    warn(&why);
    Ok(())
}

fn first_difference(rebuilt: &Path) -> Result<Option<String>> {
    for file in objects::files() {
        let read = |folder: &Path| {
            let path = folder.join(&file);
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        if read(&paths::prebuilt())? != read(rebuilt)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Leaves the rebuilt objects where they can be looked into. A failure to do so is not worth an
/// error: the one that is about to be reported is. Returns the folder.
fn keep(rebuilt: &Path) -> PathBuf {
    let folder = paths::ebpf_target().join("rebuilt");
    let _ = fs::create_dir_all(&folder);
    for file in objects::files() {
        let _ = fs::copy(rebuilt.join(&file), folder.join(&file));
    }
    folder
}
