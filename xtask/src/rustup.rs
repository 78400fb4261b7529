//! Toolchains and components that rustup installs.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{
    process::{forget_rust_settings, progress, run},
    toolchain::VERSION,
};

/// A component of a toolchain, and a file that shows its presence.
pub struct Component {
    /// rustup's name of the component.
    pub name: &'static str,
    file: &'static str,
}

/// The source of `core`: rustup has no compiled one for BPF.
pub const RUST_SRC: Component = Component {
    name: "rust-src",
    file: "lib/rustlib/src/rust/library/Cargo.lock",
};
/// The lints.
pub const CLIPPY: Component = Component {
    name: "clippy",
    file: "bin/cargo-clippy",
};
/// The formatter.
pub const RUSTFMT: Component = Component {
    name: "rustfmt",
    file: "bin/cargo-fmt",
};

/// The standard library for static binaries.
pub const MUSL: Component = if cfg!(target_arch = "aarch64") {
    Component {
        name: "rust-std-aarch64-unknown-linux-musl",
        file: "lib/rustlib/aarch64-unknown-linux-musl/lib",
    }
} else {
    Component {
        name: "rust-std-x86_64-unknown-linux-musl",
        file: "lib/rustlib/x86_64-unknown-linux-musl/lib",
    }
};

impl Component {
    /// Whether the toolchain in `sysroot` has the component.
    pub fn is_in(&self, sysroot: &Path) -> bool {
        sysroot.join(self.file).exists()
    }

    /// Makes sure that the toolchain in `sysroot` has the component.
    pub fn ensure_in(&self, sysroot: &Path) -> Result<()> {
        if self.is_in(sysroot) {
            return Ok(());
        }
        let name = self.name;
        progress(&format!("adding {name} to Rust {VERSION}"));
        let mut add = rustup();
        // rustup names a toolchain by its folder.
        let toolchain = sysroot.file_name().unwrap_or_default();
        add.args(["component", "add", name, "--toolchain"]);
        run(add.arg(toolchain)).with_context(|| format!("Rust {VERSION} lacks {name}, add it"))
    }
}

/// Installs the pinned toolchain.
pub fn install() -> Result<()> {
    progress(&format!("installing Rust {VERSION}"));
    let mut install = rustup();
    install.args(["toolchain", "install", VERSION, "--profile", "minimal"]);
    run(&mut install).with_context(|| format!("Rust {VERSION} is not here, install it by rustup"))
}

fn rustup() -> Command {
    let mut rustup = Command::new("rustup");
    forget_rust_settings(&mut rustup);
    rustup
}
