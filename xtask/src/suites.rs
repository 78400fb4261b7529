//! Test programs as people name them. `faults` is the folder `tests/tests/faults`: a module of one of the few programs of
//! that package. Runners treat each module as a program of its own.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::{artifacts::Program, paths, process::output};

/// The programs of `tests/tests`. The source of each has a line `mod NAME;` for each of its modules.
const ROOTS: [&str; 3] = ["commands", "fleets", KERNEL];
/// The one with all tests that run on other kernels too.
pub const KERNEL: &str = "kernel";

/// A small test program of the package with the command: cargo builds the command along with it.
pub const WITH_THE_COMMAND: &str = "sandbox";

/// A module that runs once more, under another name, with an environment variable.
const AGAIN: (&str, &str, Variable) = ("fleet_store", "fleet_valkey", (STORE, "valkey"));

/// An environment variable and its value.
type Variable = (&'static str, &'static str);

/// The environment variable that tests of Redis read: the name of another store.
pub const STORE: &str = "LIMITER_REDIS";

/// A module, or a whole program. It has the tests that one process runs.
#[derive(Clone)]
pub struct Suite {
    program: Program,
    /// The name on command lines: of the module, of the program, or for unit tests of the package.
    pub name: String,
    /// The path of the source in the repository.
    pub source: String,
    /// The names of the tests; none for a whole program.
    tests: Option<Vec<String>>,
    variable: Option<Variable>,
}

impl Suite {
    /// The suites in these programs.
    pub fn all_of(programs: Vec<Program>) -> Result<Vec<Self>> {
        let mut suites = Vec::new();
        for program in programs {
            let is_root = |root| program.source().ends_with(format!("tests/tests/{root}.rs"));
            if ROOTS.iter().any(is_root) {
                suites.extend(Self::modules_of(&program)?);
            } else {
                suites.push(Self::whole(program));
            }
        }
        Ok(suites)
    }

    fn modules_of(program: &Program) -> Result<Vec<Self>> {
        let mut tests = BTreeMap::<_, Vec<_>>::new();
        let mut list = Command::new(&program.file);
        for line in output(list.args(["--list", "--format", "terse"]))?.lines() {
            // Benchmarks have another ending.
            let Some(test) = line.strip_suffix(": test") else {
                continue;
            };
            let module = test.split("::").next().unwrap_or_default();
            tests
                .entry(module.to_owned())
                .or_default()
                .push(test.to_owned());
        }
        let (first, again, variable) = AGAIN;
        let mut suites = Vec::new();
        for (module, tests) in tests {
            let suite = |name: &str, variable| Self {
                program: program.clone(),
                name: name.to_owned(),
                source: format!("tests/tests/{name}"),
                tests: Some(tests.clone()),
                variable,
            };
            if module == first {
                suites.push(suite(again, Some(variable)));
            }
            suites.push(suite(&module, None));
        }
        Ok(suites)
    }

    fn whole(program: Program) -> Self {
        let path = program.source().strip_prefix(paths::root());
        let source = path.unwrap_or(program.source()).with_extension("");
        // Unit tests are in `PACKAGE/src`, others in `PACKAGE/tests`.
        let package = source.iter().next().unwrap_or_default();
        let is_unit = source.iter().nth(1).is_some_and(|folder| folder == "src");
        let name = if is_unit {
            &package.to_string_lossy()
        } else {
            program.name()
        };
        Self {
            name: name.to_owned(),
            source: source.display().to_string(),
            program,
            tests: None,
            variable: None,
        }
    }

    /// The suite with those of its tests for which `is_chosen` is true.
    pub fn only(&self, is_chosen: impl Fn(&str) -> bool) -> Self {
        let mut suite = self.clone();
        let tests = suite.tests.iter_mut();
        tests.for_each(|tests| tests.retain(|test| is_chosen(test)));
        suite
    }

    /// Adds the program to `command`, the start of a command line.
    pub fn complete(&self, command: &mut Command) {
        command.arg(&self.program.file);
        self.program.set_folder(command);
        command.envs(self.variable);
    }

    /// Adds the arguments that select the tests of this suite: all, or those with `part` in their names.
    pub fn select<'c>(
        &self,
        command: &'c mut Command,
        part: Option<&str>,
    ) -> Result<&'c mut Command> {
        let Some(tests) = &self.tests else {
            return Ok(command.args(part));
        };
        let is_chosen = |test: &&String| part.is_none_or(|part| test.contains(part));
        let mut chosen = tests.iter().filter(is_chosen).peekable();
        if chosen.peek().is_none() {
            let part = part.unwrap_or_default();
            bail!("no test of {} has '{part}' in its name", self.name);
        }
        // Without `--exact`, `store::` would select the tests of `fleet_store` too.
        Ok(command.arg("--exact").args(chosen))
    }
}

/// Splits `NAME` or `NAME::TEST` into the name of a suite, and a part of the names of its tests.
pub fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once("::")
        .map_or((name, None), |(name, part)| (name, Some(part)))
}

fn folder() -> PathBuf {
    paths::root().join("tests/tests")
}

/// The program of `tests/tests` with this module.
pub fn program_of(module: &str) -> Result<&'static str> {
    let (first, again, _) = AGAIN;
    let module = if module == again { first } else { module };
    for root in ROOTS {
        if modules(root)?.iter().any(|own| own == module) {
            return Ok(root);
        }
    }
    bail!("no test program is called {module}: see the files in tests/tests")
}

fn modules(root: &str) -> Result<Vec<String>> {
    let path = folder().join(root).with_extension("rs");
    let text = fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    Ok(names.map(str::to_owned).collect())
}

/// Checks that each file and folder of `tests/tests` is a module of one program. Cargo does not see the others.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    let mut all = Vec::new();
    for root in ROOTS {
        all.extend(modules(root)?);
    }
    for entry in fs::read_dir(folder()).context("tests/tests")? {
        let path = entry?.path();
        if !path.is_dir() && path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_root = ROOTS.contains(&&*name) && path.is_file();
        let count = all.iter().filter(|module| **module == *name).count();
        if !is_root && count != 1 {
            wrong.push(format!("{name} ({count})"));
        }
    }
    if !wrong.is_empty() {
        bail!(
            "each test file must be a module of one program: add a line `mod NAME;` to tests/tests/kernel.rs, commands.rs or \
             fleets.rs: {}",
            wrong.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_file_is_a_module_of_one_program() -> Result<()> {
        check()?;
        assert_eq!(program_of("fleet_valkey")?, "fleets");
        assert!(program_of("nobody").is_err());
        Ok(())
    }
}
