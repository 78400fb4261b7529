//! The tools that turn the sources into objects.

use std::path::PathBuf;

use anyhow::Result;

use crate::{linker::Linker, paths, rustup::RUST_SRC, toolchain::Rust};

/// The pinned compiler and linker.
pub struct Tools {
    /// The compiler, with the source of `core`.
    pub rust: Rust,
    /// The linker.
    pub linker: Linker,
}

impl Tools {
    /// Finds both tools, if they are on this machine.
    pub fn find() -> Result<Self> {
        let rust = Rust::find(&[RUST_SRC])?;
        let linker = Linker::find(&rust)?;
        Ok(Self { rust, linker })
    }

    /// Finds both tools, and installs them if they are missing.
    pub fn set_up() -> Result<Self> {
        let rust = Rust::set_up(&[RUST_SRC])?;
        let linker = Linker::set_up(&rust)?;
        Ok(Self { rust, linker })
    }

    /// The folder of compiled code for these tools. Cargo does not notice an update of the linker's shared LLVM, so
    /// each has a folder of its own.
    pub fn target_dir(&self) -> PathBuf {
        paths::ebpf_target().join(&self.linker.llvm)
    }
}
