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
use crate::{
    paths,
    process::{progress, today},
};

/// Tries the mutations whose names contain one of `names`, or all. Writes the table to `out`.
pub fn run(names: &[String], out: Option<&Path>) -> Result<()> {
    let mutations = list::read()?;
    list::check(&mutations)?;
    let chosen: Vec<_> = mutations
        .iter()
        .filter(|mutation| {
            names.is_empty() || names.iter().any(|name| mutation.name.contains(name))
        })
        .collect();
    if chosen.is_empty() {
        bail!("no mutation has such a name: see tests/mutations.toml");
    }
    let tree = Tree::set_up()?;
    // A test that fails without the mutation proves nothing. All tests run on the sound code first, so that it is
    // compiled once.
    let mut sound = BTreeMap::new();
    for mutation in &chosen {
        if let Entry::Vacant(place) = sound.entry(mutation.test.to_string()) {
            progress(&format!("{} on the sound code", mutation.test));
            place.insert(passes(&tree, &mutation.test, "the sound code")?);
        }
    }
    let mut rows = TABLE.to_owned();
    let mut escaped = 0;
    for mutation in &chosen {
        let began = Instant::now();
        let passed = sound[&mutation.test.to_string()];
        let outcome = attempt(&tree, mutation, passed);
        progress(&format!("{}: {outcome}", mutation.name));
        escaped += usize::from(outcome != CAUGHT);
        let Mutation {
            promise,
            name,
            file,
            test,
            ..
        } = mutation;
        let seconds = began.elapsed().as_secs();
        rows += &format!("| {promise} | {name} | `{file}` | `{test}` | {outcome} | {seconds} |\n");
    }
    println!("{rows}");
    if let Some(out) = out {
        let page = format!(
            "# Mutations\n\n\
             What `cargo xtask mutations --out docs/mutations.md` found on {}: the code is broken in each of the ways of\n\
             `tests/mutations.toml`, and the test that is meant for it must fail. Before that it must have passed.\n\n{rows}",
            today()?
        );
        fs::write(out, page).with_context(|| format!("cannot write {}", out.display()))?;
    }
    if escaped > 0 {
        bail!("{escaped} of {} were not caught: see above", chosen.len());
    }
    Ok(())
}

/// The desired outcome.
const CAUGHT: &str = "caught";
const TABLE: &str = "| promise | what is broken | where | test | outcome | seconds |\n| --- | --- | --- | --- | --- | --- |\n";

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

/// Whether the test passes. Fails if the test cannot be built or does not run. A skipped test counts as failed. The
/// output of a failed test is kept in `said` beside the copies, to check that it failed because of the mutation.
fn passes(tree: &Tree, test: &Test, code: &str) -> Result<bool> {
    let built = tree.cargo_test(test).arg("--no-run").output();
    let built = built.context("cannot start cargo: is it installed?")?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        bail!("{test} does not build with {code}:\n{said}");
    }
    let mut run = tree.cargo_test(test);
    run.args(["--", "--exact", &test.2]);
    let run = run.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&run.stdout);
    if !said.contains(&format!("test {} ...", test.2)) {
        let complaint = String::from_utf8_lossy(&run.stderr);
        bail!("{test} did not run with {code}:\n{said}{complaint}");
    }
    if !run.status.success() {
        let kept = paths::target().join("mutations").join("said");
        fs::create_dir_all(&kept)?;
        fs::write(kept.join(format!("{test} with {code}.txt")), &run.stdout)?;
    }
    Ok(run.status.success())
}
