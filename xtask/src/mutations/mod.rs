//! `cargo xtask mutations`: breaks the code on purpose, in each way of `tests/mutations.toml`. The test for each
//! mutation must fail.

mod list;
mod tree;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    path::Path,
    time::Instant,
};

use anyhow::{Context, Result, bail};

use self::{
    list::{Mutation, Test},
    tree::Tree,
};
use crate::{paths, process::progress};

/// Tries the mutations with one of `names` in their names, or all. Writes the table to `out`.
pub fn run(names: &[String], out: Option<&Path>) -> Result<()> {
    let mut mutations = list::read()?;
    mutations.retain(|mutation| {
        names.is_empty() || names.iter().any(|name| mutation.name.contains(name))
    });
    if mutations.is_empty() {
        bail!("no mutation has such a name: see tests/mutations.toml");
    }
    let tree = Tree::set_up()?;
    // A test that fails without the mutation proves nothing. All tests run on the sound code first, so that it is
    // compiled once.
    let mut sound = BTreeMap::new();
    for Mutation { test, .. } in &mutations {
        if let Entry::Vacant(place) = sound.entry(test.to_string()) {
            progress(&format!("{test} on the sound code"));
            place.insert(passes(&tree, test, "the sound code")?);
        }
    }
    let mut table = HEADING.to_owned();
    let mut escaped = 0;
    for mutation in &mutations {
        let began = Instant::now();
        let outcome = attempt(&tree, mutation, sound[&mutation.test.to_string()]);
        escaped += usize::from(outcome != CAUGHT);
        let (name, promise) = (&mutation.name, &mutation.promise);
        let (file, test) = (&mutation.file, &mutation.test);
        progress(&format!("{name}: {outcome}"));
        let seconds = began.elapsed().as_secs();
        table += &format!("| {promise} | {name} | `{file}` | `{test}` | {outcome} | {seconds} |\n");
    }
    println!("{table}");
    if let Some(out) = out {
        fs::write(out, table).with_context(|| format!("cannot write {}", out.display()))?;
    }
    if escaped > 0 {
        bail!("{escaped} mutations were not caught: see above");
    }
    Ok(())
}

/// The desired outcome.
const CAUGHT: &str = "caught";
const HEADING: &str = "| promise | what is broken | where | test | outcome | seconds |\n| --- | --- | --- | --- | --- | --- |\n";

/// The outcome of a mutation. `passed`: whether its test passes on the sound code.
fn attempt(tree: &Tree, mutation: &Mutation, passed: bool) -> &'static str {
    if !passed {
        return "THE TEST FAILS WITHOUT IT";
    }
    let escaped = tree.broken(mutation, |tree| {
        passes(tree, &mutation.test, &mutation.name)
    });
    match escaped {
        Ok(false) => CAUGHT,
        Ok(true) => "NOT CAUGHT",
        // The error is reported, and the other mutations are still tried: they take an hour.
        Err(error) => {
            progress(&format!("{}: {error:#}", mutation.name));
            "DOES NOT BUILD"
        }
    }
}

/// True if the test passes. Fails if the test cannot be built or does not run. A skipped test counts as failed. The
/// output of a failed test is kept beside the copies, to check that it failed because of the mutation.
fn passes(tree: &Tree, test: &Test, code: &str) -> Result<bool> {
    let (_, name) = test.target()?;
    let built = tree.cargo_test(test)?.arg("--no-run").output()?;
    if !built.status.success() {
        let printed = String::from_utf8_lossy(&built.stderr);
        bail!("{test} does not build with {code}:\n{printed}");
    }
    let run = tree.run(test)?.output()?;
    let printed = String::from_utf8_lossy(&run.stdout);
    // The status of `timeout`. A mutation may let a test wait for ever.
    if run.status.code() == Some(124) {
        progress(&format!("{test} with {code} did not end in time"));
        return Ok(false);
    }
    if !printed.contains(&format!("test {name} ...")) {
        let errors = String::from_utf8_lossy(&run.stderr);
        bail!("{test} did not run with {code}:\n{printed}{errors}");
    }
    if !run.status.success() {
        let kept = paths::target().join("mutations/output");
        fs::create_dir_all(&kept)?;
        fs::write(kept.join(format!("{test} with {code}.txt")), &run.stdout)?;
    }
    Ok(run.status.success())
}
