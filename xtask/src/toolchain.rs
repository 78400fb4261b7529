//! The pinned Rust compiler, which builds the BPF programs and runs the lints.
//!
//! The compiler is pinned by commit: another compiler makes other bytes, and the check compares bytes.

use std::{env, ffi::OsStr, iter, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::{
    paths,
    process::{forget_rust_settings, output, progress},
    rustup::{self, Component},
};

/// The pinned release. Raise it together with [`COMMIT`], then rebuild the objects.
pub const VERSION: &str = "1.95.0";
/// The commit of that release, as `rustc -vV` prints it.
pub const COMMIT: &str = "59807616e1fa2540724bfbac14d7976d7e4a3860";

/// The pinned toolchain on this machine.
pub struct Rust {
    sysroot: PathBuf,
    host: String,
    /// Version of the toolchain's LLVM, without rustc's suffix.
    pub llvm: String,
}

impl Rust {
    /// Finds the pinned toolchain with `components`, if it is on this machine.
    pub fn find(components: &[Component]) -> Result<Self> {
        let rust = Self::probe_all()
            .with_context(|| format!("rustc {VERSION} is not here: install it with rustup"))?;
        let missing = components
            .iter()
            .find(|wanted| !wanted.is_in(&rust.sysroot));
        if let Some(Component { name, .. }) = missing {
            bail!("rustc {VERSION} is here without {name}: add it with rustup");
        }
        Ok(rust)
    }

    /// Finds the pinned toolchain with `components`. rustup installs missing parts.
    pub fn set_up(components: &[Component]) -> Result<Self> {
        let rust = match Self::probe_all() {
            Some(rust) => rust,
            None => Self::install_pinned()?,
        };
        for component in components {
            component.ensure_in(&rust.sysroot)?;
        }
        Ok(rust)
    }

    fn probe_all() -> Option<Self> {
        let pinned = format!("+{VERSION}");
        let names = [Some(pinned.as_str()), Some("+stable"), None];
        names.into_iter().find_map(Self::probe)
    }

    /// Checks one `rustc`: it must be of the pinned commit and come with a cargo.
    fn probe(name: Option<&str>) -> Option<Self> {
        let verbose = output(rustc(name).arg("-vV")).ok()?;
        let field = |key: &str| verbose.lines().find_map(|line| line.strip_prefix(key));
        if field("commit-hash: ")? != COMMIT {
            return None;
        }
        let sysroot = output(rustc(name).args(["--print", "sysroot"])).ok()?;
        let sysroot = PathBuf::from(sysroot.trim_end());
        let llvm = field("LLVM version: ")?.to_owned();
        let host = field("host: ")?.to_owned();
        sysroot.join("bin/cargo").exists().then_some(Self {
            sysroot,
            host,
            llvm,
        })
    }

    fn install_pinned() -> Result<Self> {
        rustup::install()?;
        Self::probe_all().with_context(|| {
            format!("rustup's {VERSION} is not commit {COMMIT}: use the official distribution")
        })
    }

    /// The toolchain's cargo.
    pub fn cargo(&self) -> Command {
        self.tool("cargo")
    }

    /// Builds a program of crates.io into this checkout's tools.
    pub fn install(&self, name: &str, version: &str, options: &[&str]) -> Command {
        progress(&format!("building {name} {version} (some minutes)"));
        let mut install = self.cargo();
        install.args(["install", "--quiet", "--locked", "--force", name]);
        install.args(["--version", &format!("={version}"), "--root"]);
        install.arg(paths::tools()).args(options);
        // Debug information is not needed.
        install.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        install.env("CARGO_PROFILE_DEV_DEBUG", "false");
        install
    }

    /// A program of the toolchain.
    pub fn tool(&self, name: &str) -> Command {
        self.command(self.sysroot.join("bin").join(name))
    }

    /// A command without outside settings, which finds this toolchain first. Through rustup's proxies it would get the
    /// developer's default toolchain.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let bin = self.sysroot.join("bin");
        let mut command = Command::new(program);
        forget_rust_settings(&mut command);
        let path = env::var_os("PATH").unwrap_or_default();
        if let Ok(path) = env::join_paths(iter::once(bin.clone()).chain(env::split_paths(&path))) {
            command.env("PATH", path);
        }
        command.env("CARGO", bin.join("cargo"));
        command.env("RUSTC", bin.join("rustc"));
        command.current_dir(paths::root());
        command
    }

    /// The toolchain's own objcopy of LLVM. It is pinned too, unlike a distribution's.
    pub fn objcopy(&self) -> Command {
        let rustlib = self.sysroot.join("lib/rustlib").join(&self.host);
        let mut objcopy = Command::new(rustlib.join("bin/rust-objcopy"));
        // rustc normally starts this program, and tells it the path of its LLVM.
        objcopy.env("LD_LIBRARY_PATH", self.sysroot.join("lib"));
        objcopy
    }

    /// Path of the source of `core`.
    pub fn source(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust")
    }
}

fn rustc(name: Option<&str>) -> Command {
    let mut rustc = Command::new("rustc");
    forget_rust_settings(&mut rustc);
    // This must not install anything. rustup would install a toolchain that is named and missing.
    rustc.env("RUSTUP_AUTO_INSTALL", "0").args(name);
    rustc
}
