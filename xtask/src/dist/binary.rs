//! Builds the static binary, which runs on every distribution.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    debian, flags, paths,
    process::{output, progress, run},
    processors::Architecture,
    toolchain::Rust,
};

/// A binary to pack.
pub struct Binary {
    pub file: PathBuf,
    pub architecture: Architecture,
    /// The level at which gzip compresses the files with it, 1 to 9.
    pub level: u8,
}

impl Binary {
    /// The command that runs it, if need be in an emulator.
    pub fn command(&self) -> Command {
        if self.architecture.is_native() {
            return Command::new(&self.file);
        }
        let mut emulator = Command::new(format!("qemu-{}-static", self.architecture.name));
        emulator.arg(&self.file);
        emulator
    }

    /// The command that compresses `file` to `file.gz`, with the same bytes on every machine.
    pub fn gzip(&self, file: &Path) -> Command {
        let mut gzip = Command::new("gzip");
        gzip.arg(format!("-{}n", self.level)).arg(file);
        gzip
    }
}

/// Builds the binary with the pinned compiler. It contains no folder of this machine.
pub fn build(architecture: Architecture) -> Result<PathBuf> {
    let rust = Rust::set_up(&[])?;
    let target = architecture.target;
    rust.add(target)?;
    let target_dir = paths::target().join("dist/build");
    let folders = flags::folders(&rust, &target_dir)?;
    let remaps = folders
        .iter()
        .map(|(from, replacement)| flags::remap(&from.to_string_lossy(), replacement));
    progress("building the static binary (some minutes)");
    let mut cargo = rust.tool("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "limiter-user"]);
    cargo.arg("--target-dir").arg(&target_dir);
    if architecture.is_native() {
        // One of the names under which crates with C code look for a compiler.
        let names = [&format!("{}-linux-musl-gcc", architecture.name), "musl-gcc"];
        if !names
            .iter()
            .any(|name| output(Command::new(name).arg("--version")).is_ok())
        {
            debian::ensure("musl-tools", "the static binary")?;
        }
        cargo.args(["--target", target]);
    } else {
        debian::ensure("qemu-user-static", "running the static binary")?;
        architecture.cross(&mut cargo)?;
    }
    cargo.env(
        "CARGO_ENCODED_RUSTFLAGS",
        remaps.collect::<Vec<_>>().join("\x1f"),
    );
    run(&mut cargo)?;
    let binary = target_dir.join(target).join("release/limiter");
    flags::refuse_local_paths(&binary, &folders)?;
    Ok(binary)
}
