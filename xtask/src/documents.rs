//! Mechanical rules for texts, which the lint checks.

use std::{fs, path::Path};

use anyhow::{Result, bail};

use crate::paths;

/// Lines that README.md may have.
const README_MAX: usize = 180;
/// Words with which a comment does not begin: it would point at something instead of naming it.
const OPENINGS: [&str; 8] = [
    "What ", "Who ", "Whoever ", "Where ", "How ", "Which ", "Whose ", "That of",
];
/// Folders whose comments are checked.
const PARTS: [&str; 6] = [
    "limiter-common",
    "limiter-ebpf/src",
    "limiter-fleet",
    "limiter-user",
    "tests",
    "xtask/src",
];
/// Comments that say nothing by themselves.
const EMPTY: [&str; 4] = ["As above.", "The same.", "See above.", "Likewise."];

/// Fails with a line for each place that breaks a rule.
pub fn check() -> Result<()> {
    let root = paths::root();
    let mut wrong = Vec::new();
    let lines = fs::read_to_string(root.join("README.md"))?.lines().count();
    if lines > README_MAX {
        wrong.push(format!("README.md has {lines} lines; at most {README_MAX}"));
    }
    for part in PARTS {
        for (file, text) in paths::sources_in(&root.join(part))? {
            wrong.extend(comments(&file, &text));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}", wrong.join("\n"))
}

/// First lines of comments that break a rule.
fn comments(file: &Path, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut is_in_comment = false;
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let said = comment.map(|comment| comment.trim_start_matches(['/', '!']).trim());
        if let Some(said) = said.filter(|_| !is_in_comment)
            && (OPENINGS.iter().any(|opening| said.starts_with(opening)) || EMPTY.contains(&said))
        {
            wrong.push(format!("{}:{}: {said}", file.display(), number + 1));
        }
        is_in_comment = said.is_some_and(|said| !said.is_empty());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_that_point_are_refused() {
        let text = "/// Where it is.\n/// How it got there.\nfn a() {}\n// The same.\nfn b() {}\n/// The place of it.\nfn c() {}\n";
        let wrong = comments(Path::new("a.rs"), text);
        assert_eq!(wrong, ["a.rs:1: Where it is.", "a.rs:4: The same."]);
    }

    #[test]
    fn texts_keep_the_rules() {
        check().unwrap();
    }
}
