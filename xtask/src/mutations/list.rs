//! Reads `tests/mutations.toml`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{paths, suites};

/// A mutation: one way to break the code.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    /// The effect of the mutation.
    pub name: String,
    pub promise: String,
    pub side: Side,
    /// The source file, relative to the root of the repository.
    pub file: String,
    /// The text to replace, which is in the file exactly once.
    pub old: String,
    pub new: String,
    /// The test that must fail.
    pub test: Test,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Only the program in the kernel.
    Kernel,
    /// Only the code in user space.
    Host,
}

/// Package, target and name of a test. The target is a test program, or `lib` for unit tests.
#[derive(Deserialize)]
pub struct Test(pub String, pub String, pub String);

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.1, self.2)
    }
}

/// Reads all mutations. Checks that each still applies, changes something, and names an existing test.
pub fn read() -> Result<Vec<Mutation>> {
    let path = paths::root().join("tests/mutations.toml");
    let text = fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let mut file: BTreeMap<String, Vec<Mutation>> =
        toml::from_str(&text).context("cannot parse tests/mutations.toml")?;
    let mutations = file.remove("mutation").context("no mutations")?;
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for mutation in &mutations {
        if !names.insert(&mutation.name) {
            wrong.push(format!("'{}' is there twice", mutation.name));
        }
        if let Err(error) = mutation.applied().and_then(|_| mutation.test.look_up()) {
            wrong.push(format!("'{}': {error:#}", mutation.name));
        }
    }
    if !wrong.is_empty() {
        bail!("tests/mutations.toml: {}", wrong.join("; "));
    }
    Ok(mutations)
}

impl Mutation {
    /// The content of the file with the mutation.
    pub fn applied(&self) -> Result<String> {
        let text = fs::read_to_string(paths::root().join(&self.file))
            .with_context(|| format!("cannot read {}", self.file))?;
        self.applied_to(&text)
    }

    /// A text of the file with the mutation.
    pub fn applied_to(&self, text: &str) -> Result<String> {
        let count = text.matches(&self.old).count();
        if count != 1 {
            bail!(
                "`old` must be in {} once, and is there {count} times",
                self.file
            );
        }
        if self.old == self.new {
            bail!("`old` and `new` are equal");
        }
        Ok(text.replacen(&self.old, &self.new, 1))
    }
}

/// The target with a package's unit tests.
pub const UNIT_TESTS: &str = "lib";

impl Test {
    /// The test program that cargo builds, and the test's name in it.
    pub fn target(&self) -> Result<(&str, String)> {
        let Self(package, target, name) = self;
        match package.as_str() {
            "limiter-tests" => Ok((suites::program_of(target)?, self.to_string())),
            _ => Ok((target, name.clone())),
        }
    }

    fn look_up(&self) -> Result<()> {
        self.target()?;
        let Self(package, target, _) = self;
        if target == UNIT_TESTS {
            return self.look_up_in(&paths::root().join(package).join("src"));
        }
        // A test is a file, or a folder of files and folders.
        let folder = match package.as_str() {
            "limiter-tests" => "tests",
            "limiter-load" => "tests/load",
            package => package,
        };
        let target = paths::root().join(folder).join("tests").join(target);
        self.look_up_in(&target)
    }

    fn look_up_in(&self, target: &Path) -> Result<()> {
        let sources = match fs::read_to_string(target.with_extension("rs")) {
            Ok(text) => text,
            Err(_) => paths::sources_in(target)?
                .into_iter()
                .map(|(_, text)| text)
                .collect(),
        };
        let name = self.2.rsplit("::").next().unwrap_or_default();
        if !sources.contains(&format!("fn {name}(")) {
            bail!("there is no test {self} in {}", target.display());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_applies_and_names_a_test() -> Result<()> {
        assert!(read()?.len() >= 12);
        Ok(())
    }

    #[test]
    fn plan_for_other_kernels_names_tests() -> Result<()> {
        let plan = include_str!("../kernels/init.sh").replace("\\\n", " ");
        let mut count = 0;
        let lines = plan.lines().map(str::trim_start);
        for line in lines.filter(|line| line.starts_with("target ")) {
            let (program, tests) = (line.split(' ').nth(1), line.rsplit('"').next());
            let program = program.context("a line without a program")?;
            for test in tests.into_iter().flat_map(str::split_whitespace) {
                Test("limiter-tests".into(), program.into(), test.into()).look_up()?;
                assert_eq!(suites::program_of(program)?, suites::KERNEL);
                count += 1;
            }
        }
        assert!(count >= 12, "{count}");
        Ok(())
    }
}
