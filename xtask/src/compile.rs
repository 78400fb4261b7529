//! Compiles the sources to objects, with equal bytes on every machine.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{
    flags::{self, CARGO, FLAGS},
    objects::{self, ENDIANS, PROGRAMS, target},
    paths,
    process::{progress, run},
    rustc_wrapper,
    tools::Tools,
};

/// A configuration to compile with: the tools, a folder for intermediate files, and the folders of this machine.
pub struct Compiler<'a> {
    tools: &'a Tools,
    root: PathBuf,
    target_dir: PathBuf,
    folders: Vec<(PathBuf, &'static str)>,
}

impl<'a> Compiler<'a> {
    /// Creates a compiler. Downloads the dependencies, because their folders are replaced in the objects.
    pub fn new(tools: &'a Tools, target_dir: PathBuf) -> Result<Self> {
        Ok(Self {
            tools,
            root: paths::root(),
            folders: flags::folders(&tools.rust, &target_dir)?,
            target_dir,
        })
    }

    /// Changes to the sources of another tree, below this one.
    pub fn of(self, root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            ..self
        }
    }

    /// Compiles every object into the folder `to`.
    pub fn compile_all(&self, destination: &Path) -> Result<()> {
        fs::create_dir_all(destination)
            .with_context(|| format!("cannot create {}", destination.display()))?;
        PROGRAMS
            .iter()
            .try_for_each(|program| self.compile(program, &ENDIANS, destination))
    }

    /// Compiles the objects of a program for these byte orders into the folder `to`.
    pub fn compile(&self, program: &str, endians: &[&str], destination: &Path) -> Result<()> {
        progress(&format!("compiling the objects of {program}"));
        let mut cargo = self.tools.rust.tool("cargo");
        let (binary, feature) = program.split_once('-').unwrap_or((program, ""));
        cargo.args(["build", "--quiet", "--bin", binary, "--features", feature]);
        for endian in endians {
            cargo.args(["--target", &target(endian)]);
        }
        cargo.arg("--manifest-path");
        cargo.arg(self.root.join("limiter-ebpf/Cargo.toml"));
        cargo.arg("--target-dir").arg(&self.target_dir).args(CARGO);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", self.flags().join("\x1f"));
        // `-Z build-std` is unstable, and so is BPF's inline assembly, which aya-ebpf uses.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        rustc_wrapper::put_into(&mut cargo)?;
        run(&mut cargo).with_context(|| format!("cannot make the objects of {program}"))?;
        for endian in endians {
            let linked = self.target_dir.join(target(endian)).join("release");
            let object = destination.join(objects::file(program, endian));
            self.tools.rust.strip(&linked.join(binary), &object)?;
            flags::refuse_local_paths(&object, &self.folders)?;
        }
        Ok(())
    }

    fn flags(&self) -> Vec<String> {
        let linker = format!("-Clinker={}", self.tools.linker.display());
        let folders = self.folders.iter();
        let remaps =
            folders.map(|(from, replacement)| flags::remap(&from.to_string_lossy(), replacement));
        let fixed = FLAGS.map(String::from).into_iter();
        fixed.chain([linker]).chain(remaps).collect()
    }
}
