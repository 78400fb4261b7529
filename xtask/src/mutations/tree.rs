//! A copy of the sources, in which the mutations are made.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::list::{Mutation, Side, Test, UNIT_TESTS};
use crate::{
    compile::Compiler,
    objects::{ENDIANS, PROGRAMS},
    paths,
    process::{cargo, output, progress},
    test::THOROUGH,
    tools::Tools,
};

/// The copies, one for each side, and the tools that compile the program.
pub struct Tree {
    kernel: PathBuf,
    host: PathBuf,
    tools: Tools,
    /// True if the program was compiled with a mutation.
    is_broken: Cell<bool>,
}

/// The most seconds for a test.
const LONGEST: &str = "300";

/// The source file that includes the object in the binary. In the copy it reads the object at run time, so that a new
/// object needs no compilation in user space.
const LOADER: &str = "limiter-kernel/src/program/object.rs";
const IN_BINARY: &str =
    r#"include_bytes_aligned!(concat!("../../../limiter-ebpf/prebuilt/", $name, $kind))"#;
const FROM_FILE: &str = r#"std::fs::read(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../limiter-ebpf/prebuilt/",
            $name,
            $kind
        ))
        .expect("the object")
        .leak()"#;

impl Tree {
    /// Copies files that have changed since the last run, so that no other file is compiled.
    pub fn set_up() -> Result<Self> {
        if cfg!(target_endian = "big") {
            bail!("mutations require a little-endian machine");
        }
        let tree = Self {
            kernel: folder().join("kernel"),
            host: folder().join("host"),
            tools: Tools::set_up()?,
            is_broken: Cell::new(false),
        };
        progress(&format!("copying the sources to {}", folder().display()));
        let listed = output(
            Command::new("git")
                .args(["ls-files", "-z"])
                .current_dir(paths::root()),
        )?;
        for copy in [&tree.kernel, &tree.host] {
            let of_sources: BTreeSet<_> = listed.split('\0').map(|file| copy.join(file)).collect();
            remove_others(copy, &of_sources)?;
        }
        for file in listed.split('\0').filter(|file| !file.is_empty()) {
            let from = paths::root().join(file);
            // The file is deleted, but the deletion is not committed yet.
            if !from.is_file() {
                continue;
            }
            let bytes = fs::read(&from).with_context(|| format!("cannot read {file}"))?;
            write(&tree.kernel.join(file), &bytes)?;
            // The objects are not copied, because they are made here.
            if !file.ends_with(".bpfel.o") || !tree.host.join(file).exists() {
                write(&tree.host.join(file), &with_loader(file, bytes)?)?;
            }
        }
        tree.compile()?;
        Ok(tree)
    }

    /// Runs `work` with the mutations of one side, and restores the code. The program is compiled again only when sound
    /// code needs it, which saves half of the time.
    pub fn broken<T>(
        &self,
        mutations: &[&Mutation],
        work: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let of_kernel = mutations
            .iter()
            .any(|mutation| mutation.side == Side::Kernel);
        let root = if of_kernel { &self.kernel } else { &self.host };
        let mut sound = BTreeMap::new();
        let mut broken = BTreeMap::new();
        for mutation in mutations {
            let path = root.join(&mutation.file);
            let text = match broken.get(&path) {
                Some(text) => String::clone(text),
                None => fs::read_to_string(&path)?,
            };
            broken.insert(path.clone(), mutation.applied_to(&text)?);
            sound.entry(path).or_insert(text);
        }
        for (path, text) in &broken {
            fs::write(path, text)?;
        }
        // Cargo compiles the code in user space when the test runs.
        let compiled = match of_kernel {
            true => self.compile(),
            false if self.is_broken.get() => self.compile(),
            false => Ok(()),
        };
        self.is_broken.set(of_kernel);
        let done = compiled.and_then(|()| work(self));
        for (path, text) in &sound {
            fs::write(path, text)?;
        }
        done
    }

    /// Compiles the program to the folder where the other side reads it.
    fn compile(&self) -> Result<()> {
        let target = folder().join("ebpf");
        let compiler = Compiler::new(&self.tools, target)?.of(&self.kernel);
        let object = self.host.join("limiter-ebpf/prebuilt");
        // Those that limit packets.
        let mut programs = PROGRAMS
            .iter()
            .filter(|program| program.starts_with("limiter"));
        programs.try_for_each(|program| compiler.compile(program, &ENDIANS[..1], &object))
    }

    /// A command that builds the test's program.
    pub fn cargo_test(&self, test: &Test) -> Result<Command> {
        self.prepared(cargo(), test)
    }

    /// A command that runs the test, and ends it if it takes longer than any sound test.
    pub fn run(&self, test: &Test) -> Result<Command> {
        let cargo = cargo();
        let mut limited = Command::new("timeout");
        limited.arg(LONGEST).arg(cargo.get_program());
        for (name, value) in cargo.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        let mut command = self.prepared(limited, test)?;
        let (_, name) = test.target()?;
        command.args(["--", "--exact", &name]);
        Ok(command)
    }

    fn prepared(&self, mut command: Command, test: &Test) -> Result<Command> {
        command.current_dir(&self.host);
        let (program, _) = test.target()?;
        command.args(["test", "--locked", "--package", &test.0]);
        match program {
            UNIT_TESTS => command.arg("--lib"),
            program => command.args(["--test", program]),
        };
        let target = folder().join("target");
        if ["limiter-tests", "limiter-load"].contains(&&*test.0) {
            // The tests run the command, which is built along with the tests of its own package. If the tests built it
            // themselves, it would be compiled twice, with different features.
            command.args(["--package", "limiter-user", "--test", "all"]);
            command.env("LIMITER_BINARY", target.join("debug/limiter"));
        }
        command.env("CARGO_TARGET_DIR", target);
        command.env("LIMITER_STRICT", "1");
        command.env(THOROUGH, "1");
        Ok(command)
    }
}

/// The folder of the copies.
fn folder() -> PathBuf {
    paths::target().join("mutations")
}

/// Removes the files in a folder that are not among `kept`: sources that were moved since the last run.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Writes a file only if it differs, because Cargo compares times.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn with_loader(file: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
    if file != LOADER {
        return Ok(bytes);
    }
    let text = String::from_utf8(bytes)?;
    if text.matches(IN_BINARY).count() != 1 {
        bail!("{LOADER} no longer embeds the objects in the way that this command knows");
    }
    Ok(text.replacen(IN_BINARY, FROM_FILE, 1).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_were_removed_leave_the_copy() -> Result<()> {
        let folder = paths::scratch()?;
        let [kept, removed] = ["a/kept.rs", "a/removed.rs"].map(|name| folder.path().join(name));
        for file in [&kept, &removed] {
            write(file, b"")?;
        }
        remove_others(folder.path(), &BTreeSet::from([kept.clone()]))?;
        assert!(kept.exists() && !removed.exists());
        Ok(())
    }

    #[test]
    fn copied_loader_reads_the_object_at_run_time() -> Result<()> {
        let bytes = fs::read(paths::root().join(LOADER))?;
        let copied = String::from_utf8(with_loader(LOADER, bytes)?)?;
        assert!(copied.contains(FROM_FILE) && !copied.contains(IN_BINARY));
        Ok(())
    }
}
