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

/// Tries the mutations with one of `names` in their names, or all. Writes the table to `out`. At most `together` mutations
/// are compiled at once.
pub fn run(names: &[String], out: Option<&Path>, together: usize) -> Result<()> {
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
    for batch in batches(&mutations, together) {
        let began = Instant::now();
        let outcomes = attempt(&tree, &batch, &sound);
        let seconds = began.elapsed().as_secs() / batch.len() as u64;
        for (mutation, outcome) in batch.iter().zip(outcomes) {
            escaped += usize::from(outcome != CAUGHT);
            let (name, promise) = (&mutation.name, &mutation.promise);
            let (file, test) = (&mutation.file, &mutation.test);
            progress(&format!("{name}: {outcome}"));
            table +=
                &format!("| {promise} | {name} | `{file}` | `{test}` | {outcome} | {seconds} |\n");
        }
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

/// The mutations in groups that are tried at once: at most `together` of one side, with different tests.
fn batches(mutations: &[Mutation], together: usize) -> Vec<Vec<&Mutation>> {
    let mut batches: Vec<Vec<&Mutation>> = Vec::new();
    for mutation in mutations {
        let fits = |other: &&Mutation| {
            other.side == mutation.side
                && other.test.to_string() != mutation.test.to_string()
                && (other.file != mutation.file || other.old != mutation.old)
        };
        let has_room = |batch: &&mut Vec<_>| batch.len() < together && batch.iter().all(fits);
        match batches.iter_mut().find(has_room) {
            Some(batch) => batch.push(mutation),
            None => batches.push(vec![mutation]),
        }
    }
    batches
}

/// The desired outcome.
const CAUGHT: &str = "caught";
const HEADING: &str = "| promise | what is broken | where | test | outcome | seconds |\n| --- | --- | --- | --- | --- | --- |\n";

/// The outcomes of mutations that are tried at once. `sound`: the tests, and whether they pass on the sound code.
fn attempt(tree: &Tree, batch: &[&Mutation], sound: &BTreeMap<String, bool>) -> Vec<&'static str> {
    let outcomes = tree.broken(batch, |tree| {
        let outcomes = batch.iter().map(|mutation| {
            if !sound[&mutation.test.to_string()] {
                return Ok("THE TEST FAILS WITHOUT IT");
            }
            let escaped = passes(tree, &mutation.test, &mutation.name)?;
            Ok(if escaped { "NOT CAUGHT" } else { CAUGHT })
        });
        outcomes.collect()
    });
    // The error is reported, and the other mutations are still tried: they take an hour.
    outcomes.unwrap_or_else(|error| match batch {
        [mutation] => {
            progress(&format!("{}: {error:#}", mutation.name));
            vec!["DOES NOT BUILD"]
        }
        _ => {
            progress(&format!("each is tried alone: {error:#}"));
            let alone = batch.iter();
            alone
                .flat_map(|mutation| attempt(tree, &[mutation], sound))
                .collect()
        }
    })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn mutations_of_one_side_with_different_tests_are_tried_together() -> Result<()> {
        let mutations = list::read()?;
        let batches = batches(&mutations, 4);
        assert_eq!(batches.iter().flatten().count(), mutations.len());
        for batch in &batches {
            let tests: BTreeSet<_> = batch
                .iter()
                .map(|mutation| mutation.test.to_string())
                .collect();
            assert_eq!(tests.len(), batch.len());
            assert!(
                batch.len() <= 4 && batch.iter().all(|mutation| mutation.side == batch[0].side)
            );
        }
        assert!(batches.len() < mutations.len() / 2);
        Ok(())
    }
}
