//! Builds the static binary, which runs on every distribution.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use super::ARCHITECTURE;
use crate::{
    debian, flags, paths,
    process::{output, progress, run},
    toolchain::{MUSL, Rust},
};

/// Builds the binary with the pinned compiler. It contains no folder of this machine.
pub fn build() -> Result<PathBuf> {
    let rust = Rust::set_up(&[MUSL])?;
    c_compiler()?;
    let target = format!("{ARCHITECTURE}-unknown-linux-musl");
    let target_dir = paths::target().join("dist/build");
    let folders = flags::folders(&rust, &target_dir)?;
    let remaps = folders
        .iter()
        .map(|(from, to)| flags::remap(&from.to_string_lossy(), to));
    progress("building the static binary (some minutes)");
    let mut cargo = rust.tool("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "limiter-user"]);
    cargo.args(["--target", &target, "--target-dir"]);
    cargo.arg(&target_dir);
    cargo.env(
        "CARGO_ENCODED_RUSTFLAGS",
        remaps.collect::<Vec<_>>().join("\x1f"),
    );
    run(&mut cargo)?;
    let binary = target_dir.join(target).join("release/limiter");
    flags::refuse_local_paths(&binary, &folders)?;
    Ok(binary)
}

/// Makes sure that there is a C compiler for static binaries, under a name that crates with C code look for.
fn c_compiler() -> Result<()> {
    let names = [&format!("{ARCHITECTURE}-linux-musl-gcc"), "musl-gcc"];
    if names
        .iter()
        .any(|name| output(Command::new(name).arg("--version")).is_ok())
    {
        return Ok(());
    }
    debian::ensure("musl-tools", "the static binary")
}
