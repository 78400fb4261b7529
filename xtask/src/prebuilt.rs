//! `cargo xtask build-ebpf`: rebuilds the committed objects. With `--check`, checks that the sources still produce
//! them.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::{compile::Compiler, objects, paths, process::progress, record::Record, tools::Tools};

/// Builds the objects into the tree, and writes their record.
pub fn build() -> Result<()> {
    let tools = Tools::set_up()?;
    // Builds to a temporary folder first: the old objects are useful until the sources compile.
    let scratch = paths::scratch()?;
    Compiler::new(&tools, tools.target_dir())?.compile_all(scratch.path())?;
    let folder = paths::prebuilt();
    fs::create_dir_all(&folder)?;
    // Removes objects that are no longer built, too.
    for path in paths::files_in(&folder)? {
        if path.extension().is_some_and(|extension| extension == "o") {
            fs::remove_file(path)?;
        }
    }
    for file in objects::files() {
        fs::copy(scratch.path().join(&file), folder.join(&file))?;
    }
    Record::write(&tools)?;
    progress("limiter-ebpf/prebuilt is up to date");
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

/// The folder of a strict comparison's builds, which it deletes first. Clippy on `limiter-ebpf` uses it too.
pub const STRICT: &str = "ebpf/strict";

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
    // Strict means without earlier results. Otherwise earlier compilations are reused, which is much faster.
    let target_dir = match strict {
        true => paths::target().join(STRICT),
        false => tools.target_dir(),
    };
    if strict && target_dir.exists() {
        fs::remove_dir_all(&target_dir)?;
    }
    let rebuilt = paths::target().join("ebpf/rebuilt");
    Compiler::new(tools, target_dir)?.compile_all(&rebuilt)?;
    let mut different = Vec::new();
    for file in objects::files() {
        let read = |path| fs::read(&path).with_context(|| format!("cannot read {path:?}"));
        if read(paths::prebuilt().join(&file))? != read(rebuilt.join(&file))? {
            different.push(file);
        }
    }
    if different.is_empty() {
        progress("the rebuilt objects are identical");
        return Ok(());
    }
    let (files, then, now) = (different.join(", "), &record.bpf_linker.llvm, &tools.llvm);
    let see = rebuilt.display();
    let why =
        format!("the sources do not make {files} with LLVM {now} ({then} made them): see {see}");
    if strict || then == now {
        bail!("{why}; run: cargo xtask build-ebpf");
    }
    warn(&why);
    Ok(())
}
