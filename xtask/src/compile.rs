//! Compiles the sources to objects, with equal bytes on every machine.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context, Result};

use crate::{
    flags::{self, CARGO, FLAGS, TARGET},
    objects::{self, ENDIANS, PROGRAMS, target},
    paths,
    process::{joined, progress, run},
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
        let mut folders = flags::folders(&tools.rust, &target_dir)?;
        // Cargo locks the folder that it works in, so each byte order has its own.
        folders.extend(ENDIANS.map(|endian| (target_dir.join(endian), TARGET)));
        Ok(Self {
            tools,
            root: paths::root(),
            target_dir,
            folders,
        })
    }

    /// Changes to the sources of another tree, below this one.
    pub fn of(self, root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            ..self
        }
    }

    /// Compiles every object into the folder `to`. The byte orders run in parallel, because a linker uses one
    /// processor.
    pub fn compile_all(&self, to: &Path) -> Result<()> {
        fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
        thread::scope(|scope| {
            let orders = ENDIANS.map(|endian| scope.spawn(move || self.compile_order(endian, to)));
            orders.into_iter().try_for_each(joined)
        })
    }

    fn compile_order(&self, endian: &str, to: &Path) -> Result<()> {
        for program in PROGRAMS {
            let file = objects::file(program, endian);
            progress(&format!("compiling {file}"));
            self.compile(program, endian, &to.join(&file))
                .with_context(|| format!("cannot make {file}"))?;
        }
        Ok(())
    }

    /// Compiles one object to the file `to`.
    pub fn compile(&self, program: &str, endian: &str, to: &Path) -> Result<()> {
        let target = target(endian);
        let target_dir = self.target_dir.join(endian);
        let mut cargo = self.tools.rust.tool("cargo");
        let (binary, feature) = program.split_once('-').unwrap_or((program, ""));
        cargo.args(["build", "--quiet", "--bin", binary, "--features", feature]);
        cargo.args(["--target", &target]);
        cargo.arg("--manifest-path");
        cargo.arg(self.root.join("limiter-ebpf/Cargo.toml"));
        cargo.arg("--target-dir").arg(&target_dir).args(CARGO);
        cargo.env("CARGO_ENCODED_RUSTFLAGS", self.flags().join("\x1f"));
        // `-Z build-std` is unstable, and so is BPF's inline assembly, which aya-ebpf uses.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        rustc_wrapper::put_into(&mut cargo)?;
        run(&mut cargo)?;
        let linked = target_dir.join(target).join("release");
        self.tools.rust.strip(&linked.join(binary), to)?;
        flags::refuse_local_paths(to, &self.folders)
    }

    fn flags(&self) -> Vec<String> {
        let linker = format!("-Clinker={}", self.tools.linker.display());
        let folders = self.folders.iter();
        let remaps = folders.map(|(from, to)| flags::remap(&from.to_string_lossy(), to));
        let fixed = FLAGS.map(String::from).into_iter();
        fixed.chain([linker]).chain(remaps).collect()
    }
}
