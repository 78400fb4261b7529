//! The tools that turn the sources into objects: the pinned compiler, and bpf-linker, which turns the compiler's
//! bitcode into a BPF object.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    debian,
    install::Program,
    paths,
    process::output,
    toolchain::{RUST_SRC, Rust},
};

/// The pinned release of bpf-linker.
pub const LINKER: Program = Program("bpf-linker", "0.13.0", "-llvm-22");
/// The feature of bpf-linker for the LLVM of the pinned rustc.
const LLVM: &str = "llvm-22";
/// Folder of that LLVM in Debian's packages.
const DEBIAN_LLVM: &str = "/usr/lib/llvm-22";
/// Debian packages that are needed to build bpf-linker.
const PACKAGES: &str = "llvm-22-dev libpolly-22-dev libzstd-dev g++";

/// The pinned compiler and linker.
pub struct Tools {
    /// The compiler, with the source of `core`.
    pub rust: Rust,
    pub linker: PathBuf,
    /// Version of the linker's LLVM, which generates the code.
    pub llvm: String,
}

impl Tools {
    /// Finds both tools, if they are on this machine.
    pub fn find() -> Result<Self> {
        let rust = Rust::find(&[RUST_SRC])?;
        let linker = LINKER.find().context("bpf-linker is not here")?;
        Self::of(rust, linker)
    }

    /// Finds both tools, and installs them if they are missing.
    pub fn set_up() -> Result<Self> {
        let rust = Rust::set_up(&[RUST_SRC])?;
        let linker = match LINKER.find() {
            Some(linker) => linker,
            None => build(&rust)?,
        };
        Self::of(rust, linker)
    }

    fn of(rust: Rust, linker: PathBuf) -> Result<Self> {
        let llvm = llvm_of(&linker)?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&llvm) != major(&rust.llvm) {
            let (theirs, linker) = (&rust.llvm, linker.display());
            bail!("bpf-linker has LLVM {llvm}, and rustc {theirs}: delete {linker}");
        }
        Ok(Self { rust, linker, llvm })
    }

    /// The folder of compiled code for these tools. Cargo does not notice an update of the linker's shared LLVM, so
    /// each has a folder of its own.
    pub fn target_dir(&self) -> PathBuf {
        paths::target().join("ebpf").join(&self.llvm)
    }
}

fn build(rust: &Rust) -> Result<PathBuf> {
    let prefix = match env::var_os("LLVM_PREFIX") {
        Some(prefix) => prefix,
        None => debian::ensure(PACKAGES, "bpf-linker").map(|()| DEBIAN_LLVM.into())?,
    };
    let mut cargo = rust.tool("cargo");
    cargo.env("LLVM_PREFIX", prefix);
    let options = ["--no-default-features", "--features", LLVM];
    LINKER.set_up(cargo, &options)
}

/// Reads the version of the LLVM in the linker at `path` from the file with the LLVM code. bpf-linker does not print
/// it, and a shared LLVM may have been updated after the linker was built.
fn llvm_of(path: &Path) -> Result<String> {
    let libraries = output(Command::new("ldd").arg(path)).unwrap_or_default();
    let shared = libraries.lines().find(|line| line.contains("libLLVM"));
    let shared = shared.and_then(|line| line.split_whitespace().nth(2));
    // The mark that LLVM writes into bitcode as its producer.
    let mut grep = Command::new("grep");
    grep.args(["-aoE", "--max-count=1", "LLVM[0-9]+[.][0-9]+[.][0-9]+"]);
    let marks = output(grep.arg(shared.map_or(path, Path::new)))
        .context("cannot find the version of bpf-linker's LLVM")?;
    let mark = marks.lines().next().unwrap_or_default();
    Ok(mark.trim_start_matches("LLVM").to_owned())
}
