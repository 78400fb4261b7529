//! Formats the results as a page in Markdown, for the terminal and the repository.

use std::fmt::Write as _;

use anyhow::Result;

use super::results::{REFUSAL, Run, Target};
use crate::process::today;

/// Maximum number of instructions of the verifier, in every supported kernel.
const LIMIT: u32 = 1_000_000;

/// The page, with the current date.
pub fn page(runs: &[Run]) -> Result<String> {
    let mut page = format!(
        "# Kernels\n\n\
         Results of `cargo xtask test --kernels --out docs/kernels.md` on {}. The command boots Debian's kernels for\n\
         virtual machines in emulated machines with two CPUs, and runs kernel tests there. Emulation is slow, and a CPU\n\
         may stand still for seconds. So tests that flood, wait for wall-clock time, or need large programs are left out\n\
         (`xtask/src/kernels/init.sh`).\n\n",
        today()?
    );
    let runs: Vec<&Run> = runs.iter().collect();
    page += &heading("tests passed", &runs);
    for title in in_order(&runs, |run| titles(run).collect()) {
        page += &row(title, &runs, |run| Some(target(run, title)?.counted()));
    }
    page += &row("complaints of the kernel itself", &runs, |run| {
        Some(run.complaints.len().to_string())
    });
    page += &row("seconds", &runs, |run| Some(run.seconds.to_string()));
    for run in &runs {
        if let Some(refused) = target(run, REFUSAL) {
            let (kernel, printed) = (&run.kernel, &refused.printed);
            let _ = write!(page, "\nOn {kernel}:\n\n```\n{printed}```\n");
        }
    }
    Ok(page + &verified(&runs))
}

/// A table of the instructions that each kernel's verifier processed.
fn verified(runs: &[&Run]) -> String {
    let mut runs = runs.to_vec();
    runs.retain(|run| !counts(run).is_empty());
    if runs.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n## The verifier\n\n\
         Instructions that the verifier processed for each entry in its most expensive configuration\n\
         (`tests/tests/verifier.rs`), and their share of the maximum of {}.\n\n",
        grouped(LIMIT)
    );
    text += &heading("entry", &runs);
    for entry in in_order(&runs, |run| {
        counts(run).into_iter().map(|(name, _)| name).collect()
    }) {
        text += &row(&format!("`{entry}`"), &runs, |run| {
            let (_, count) = counts(run).into_iter().find(|(name, _)| *name == entry)?;
            let percent = f64::from(count) * 100.0 / f64::from(LIMIT);
            Some(format!("{} ({percent:.1} %)", grouped(count)))
        });
    }
    text
}

/// The lines `verified ENTRY COUNT` of the tests.
fn counts(run: &Run) -> Vec<(&str, u32)> {
    let lines = run.targets.iter().flat_map(|target| target.printed.lines());
    let words = lines.filter_map(|line| line.strip_prefix("verified ")?.split_once(' '));
    words
        .filter_map(|(entry, count)| Some((entry, count.trim().parse().ok()?)))
        .collect()
}

fn titles(run: &Run) -> impl Iterator<Item = &str> {
    run.targets.iter().map(|target| target.title.as_str())
}

fn target<'a>(run: &'a Run, title: &str) -> Option<&'a Target> {
    run.targets.iter().find(|target| target.title == title)
}

/// Each name once, in order of appearance.
fn in_order<'a>(runs: &[&'a Run], names: impl Fn(&'a Run) -> Vec<&'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in runs.iter().flat_map(|run| names(run)) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn heading(first: &str, runs: &[&Run]) -> String {
    let kernels = row(first, runs, |run| Some(run.kernel.clone()));
    kernels + &row("---", runs, |_| Some("---".to_owned()))
}

/// A row of a table, with one cell per kernel.
fn row(first: &str, runs: &[&Run], cell: impl Fn(&Run) -> Option<String>) -> String {
    let cell = |run: &&Run| format!(" {} |", cell(run).unwrap_or_else(|| "-".to_owned()));
    let cells: String = runs.iter().map(cell).collect();
    format!("| {first} |{cells}\n")
}

/// Formats 1234567 as 1,234,567.
fn grouped(count: u32) -> String {
    let digits = count.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b',')).into_owned()
}
