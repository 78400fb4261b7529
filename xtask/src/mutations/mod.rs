//! `cargo xtask mutations`: breaks the code on purpose, in each of the ways of `tests/mutations.toml`, and
//! demands that the test that is meant for it fails.

mod list;
mod table;
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
    table::{Line, Outcome},
    tree::Tree,
};
use crate::{
    paths,
    process::{progress, today},
};

/// Tries the mutations with one of `names` in their names, or all of them; writes the table to `out`.
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
    // That a test fails with broken code says nothing where it fails without it. All before the first is broken:
    // what is sound is compiled once.
    let mut sound = BTreeMap::new();
    for mutation in &chosen {
        if let Entry::Vacant(place) = sound.entry(mutation.test.to_string()) {
            progress(&format!("{} on the sound code", mutation.test));
            place.insert(passes(&tree, &mutation.test, "the sound code")?);
        }
    }
    let mut lines = Vec::new();
    for mutation in chosen {
        let passed = sound[&mutation.test.to_string()];
        // What does not build is told, and the others are tried all the same: they take an hour.
        let line = attempt(&tree, mutation, passed).unwrap_or_else(|error| {
            progress(&format!("{}: {error:#}", mutation.name));
            Line {
                mutation,
                outcome: Outcome::Untried,
                seconds: 0,
            }
        });
        progress(&format!("{}: {}", mutation.name, line.outcome));
        lines.push(line);
    }
    let text = table::of(&lines);
    println!("{text}");
    if let Some(out) = out {
        let page = table::page(&text, &today()?);
        fs::write(out, page).with_context(|| format!("cannot write {}", out.display()))?;
    }
    let escaped = lines.iter().filter(|line| line.outcome != Outcome::Caught);
    match escaped.count() {
        0 => Ok(()),
        count => bail!("{count} of {} were not caught: see above", lines.len()),
    }
}

fn attempt<'a>(tree: &Tree, mutation: &'a Mutation, passed: bool) -> Result<Line<'a>> {
    let began = Instant::now();
    let outcome = if !passed {
        Outcome::FailsAnyway
    } else if tree.broken(mutation, |tree| {
        passes(tree, &mutation.test, &mutation.name)
    })? {
        Outcome::Escaped
    } else {
        Outcome::Caught
    };
    Ok(Line {
        mutation,
        outcome,
        seconds: began.elapsed().as_secs(),
    })
}

/// Whether the test passes; an error where it cannot be built or does not run. One that leaves itself out fails.
/// What a failed one said is kept in `said` beside the copies: it should have failed for what is broken.
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
        let kept = paths::mutations().join("said");
        fs::create_dir_all(&kept)?;
        fs::write(kept.join(format!("{test} with {code}.txt")), &run.stdout)?;
    }
    Ok(run.status.success())
}
