//! Finds and builds bpf-linker, which turns the compiler's bitcode into a BPF object.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, anyhow, bail};

use crate::{
    debian, paths,
    process::{output, run},
    toolchain::Rust,
};

/// The pinned release.
pub const VERSION: &str = "0.13.0";
/// The feature of bpf-linker for the LLVM of the pinned rustc.
const LLVM: &str = "llvm-22";
/// Folder of that LLVM in Debian's packages.
const DEBIAN_LLVM: &str = "/usr/lib/llvm-22";
/// Debian packages that are needed to build bpf-linker.
const PACKAGES: [&str; 4] = ["llvm-22-dev", "libpolly-22-dev", "libzstd-dev", "g++"];

/// The pinned bpf-linker in this checkout's tools.
pub struct Linker {
    /// Path of the linker.
    pub path: PathBuf,
    /// Version of the LLVM that generates the code.
    pub llvm: String,
}

impl Linker {
    /// Finds the pinned linker, if it is in this checkout's tools and can read the output of `rust`.
    pub fn find(rust: &Rust) -> Result<Self> {
        let path = paths::tools().join("bin/bpf-linker");
        let version = output(Command::new(&path).arg("--version")).unwrap_or_default();
        if version.trim_end() != format!("bpf-linker {VERSION}") {
            bail!(
                "bpf-linker {VERSION} is not in {}",
                paths::tools().join("bin").display()
            );
        }
        let llvm = llvm_of(&path)?;
        let theirs = &rust.llvm;
        if major(&llvm) != major(theirs) {
            let tools = paths::tools();
            bail!(
                "bpf-linker has LLVM {llvm} and rustc {theirs}: delete {}",
                tools.display()
            );
        }
        Ok(Self { path, llvm })
    }

    /// Finds the pinned linker, and builds it into this checkout's tools if it is missing.
    pub fn set_up(rust: &Rust) -> Result<Self> {
        if let Ok(linker) = Self::find(rust) {
            return Ok(linker);
        }
        build(rust).map_err(|error| {
            let bin = paths::tools().join("bin");
            anyhow!(
                "{error:#}; or put bpf-linker {VERSION} for {LLVM} into {}",
                bin.display()
            )
        })?;
        Self::find(rust)
    }
}

fn build(rust: &Rust) -> Result<()> {
    let prefix = match env::var_os("LLVM_PREFIX") {
        Some(prefix) => prefix,
        None => debian::ensure(&PACKAGES, "bpf-linker").map(|()| DEBIAN_LLVM.into())?,
    };
    let options = ["--no-default-features", "--features", LLVM];
    let mut install = rust.install("bpf-linker", VERSION, &options);
    run(install.env("LLVM_PREFIX", prefix))
}

/// Reads the version of the LLVM in the linker at `path` from the file with the LLVM code. bpf-linker does not print
/// it, and a shared LLVM may have been updated after the linker was built.
fn llvm_of(path: &Path) -> Result<String> {
    let libraries = output(Command::new("ldd").arg(path)).unwrap_or_default();
    let shared = libraries.lines().find(|line| line.contains("libLLVM"));
    let shared = shared.and_then(|line| line.split_whitespace().nth(2));
    // The mark that LLVM writes into bitcode as its producer.
    let mut grep = Command::new("grep");
    grep.args(["-aoE", "LLVM[0-9]+[.][0-9]+[.][0-9]+"]);
    let marks = output(grep.arg(shared.map_or(path, Path::new))).with_context(|| {
        let tools = paths::tools();
        format!(
            "cannot tell bpf-linker's LLVM version: delete {}, then run again",
            tools.display()
        )
    })?;
    let mark = marks.lines().next().unwrap_or_default();
    Ok(mark.trim_start_matches("LLVM").to_owned())
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or_default()
}
