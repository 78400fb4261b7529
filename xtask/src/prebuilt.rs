//! `cargo xtask build-ebpf`: rebuilds the committed objects. With `--check`, checks that the sources still produce
//! them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{compile::Compiler, objects, paths, process::progress, record::Record, tools::Tools};

/// Builds the objects into the tree, and writes their record.
pub fn build() -> Result<()> {
    let tools = Tools::set_up()?;
    let compiler = Compiler::new(&tools, tools.target_dir())?;
    // Builds to a temporary folder first: the old objects are useful until the sources compile.
    let scratch = paths::scratch()?;
    compiler.compile_all(scratch.path())?;
    replace_with(scratch.path()).context("cannot write limiter-ebpf/prebuilt, delete it")?;
    Record::of_tree(&tools)?.write()?;
    progress("limiter-ebpf/prebuilt is up to date");
    Ok(())
}

/// Replaces all objects. Objects that are no longer built are removed.
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

/// Always compares hashes. Compares bytes if the pinned tools are there. `strict` installs them.
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

/// Compares only hashes, which is fast.
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
    // Strict means without earlier results. Otherwise earlier compilations are reused, which is much faster.
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

/// Keeps the rebuilt objects for inspection, and returns their folder. A failure to keep them is ignored, because a
/// more important error is about to be reported.
fn keep(rebuilt: &Path) -> PathBuf {
    let folder = paths::ebpf_target().join("rebuilt");
    let _ = fs::create_dir_all(&folder);
    for file in objects::files() {
        let _ = fs::copy(rebuilt.join(&file), folder.join(&file));
    }
    folder
}
