//! The pinned Rust compiler, which builds the BPF programs and runs the lints.
//!
//! The compiler is pinned by commit: another compiler makes other bytes, and the check compares bytes.

use std::{
    env,
    ffi::OsStr,
    iter,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    paths,
    process::{forget_rust_settings, output, progress, run, rustup},
};

/// The pinned release. Raise it together with [`COMMIT`], then rebuild the objects.
pub const VERSION: &str = "1.95.0";
/// The commit of that release, as `rustc -vV` prints it.
pub const COMMIT: &str = "59807616e1fa2540724bfbac14d7976d7e4a3860";

/// A component of a toolchain: rustup's name, and a file that shows its presence.
#[derive(Clone, Copy)]
pub struct Component(&'static str, &'static str);

/// The source of `core`: rustup has no compiled one for BPF.
pub const RUST_SRC: Component = Component("rust-src", "lib/rustlib/src/rust/library/Cargo.lock");
pub const CLIPPY: Component = Component("clippy", "bin/cargo-clippy");
pub const RUSTFMT: Component = Component("rustfmt", "bin/cargo-fmt");
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
        let missing = rust.missing(components).join(" ");
        if !missing.is_empty() {
            bail!("rustc {VERSION} is here without {missing}: add it with rustup");
        }
        Ok(rust)
    }

    /// Finds the pinned toolchain with `components`. rustup installs missing parts.
    pub fn set_up(components: &[Component]) -> Result<Self> {
        if Self::probe_all().is_none() {
            progress(&format!("installing Rust {VERSION}"));
            run(rustup().args(["toolchain", "install", VERSION, "--profile", "minimal"]))?;
        }
        let rust = Self::probe_all().with_context(|| {
            format!("rustup's {VERSION} is not commit {COMMIT}: use the official distribution")
        })?;
        let missing = rust.missing(components);
        if !missing.is_empty() {
            progress(&format!("adding to Rust {VERSION}: {}", missing.join(" ")));
            // rustup names a toolchain by its folder.
            let toolchain = rust.sysroot.file_name().unwrap_or_default();
            let mut add = rustup();
            add.args(["component", "add", "--toolchain"]).arg(toolchain);
            run(add.args(missing))?;
        }
        Ok(rust)
    }

    /// Adds the standard library of another target.
    pub fn add(&self, target: &str) -> Result<()> {
        if self.sysroot.join("lib/rustlib").join(target).exists() {
            return Ok(());
        }
        let toolchain = self.sysroot.file_name().unwrap_or_default();
        run(rustup()
            .args(["target", "add", target, "--toolchain"])
            .arg(toolchain))
    }

    fn missing(&self, components: &[Component]) -> Vec<&'static str> {
        let is_missing = |Component(_, file): &&Component| !self.sysroot.join(file).exists();
        let missing = components.iter().filter(is_missing);
        missing.map(|Component(name, _)| *name).collect()
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

    /// Removes DWARF, which is most of the bytes of an object and which the kernel does not use. BTF and symbols stay.
    /// The toolchain's own objcopy is pinned too, unlike a distribution's.
    pub fn strip(&self, from: &Path, destination: &Path) -> Result<()> {
        let rustlib = self.sysroot.join("lib/rustlib").join(&self.host);
        let mut objcopy = Command::new(rustlib.join("bin/rust-objcopy"));
        // rustc normally starts this program, and tells it the path of its LLVM.
        objcopy.env("LD_LIBRARY_PATH", self.sysroot.join("lib"));
        run(objcopy.arg("--strip-debug").arg(from).arg(destination))
    }

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
