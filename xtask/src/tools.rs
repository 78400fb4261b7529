//! Everything that turns the sources into objects.

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
    /// Both, if they are on this machine.
    pub fn find() -> Result<Self> {
        let rust = Rust::find(&[RUST_SRC])?;
        let linker = Linker::find(&rust)?;
        Ok(Self { rust, linker })
    }

    /// Both, installed where missing.
    pub fn set_up() -> Result<Self> {
        let rust = Rust::set_up(&[RUST_SRC])?;
        let linker = Linker::set_up(&rust)?;
        Ok(Self { rust, linker })
    }

    /// Where what they compiled is kept. Cargo does not notice that the shared LLVM of its linker
    /// was updated: each has a folder of its own.
    pub fn target_dir(&self) -> PathBuf {
        paths::ebpf_target().join(&self.linker.llvm)
    }
}
