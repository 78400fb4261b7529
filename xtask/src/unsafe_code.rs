//! Compares the files with unsafe code to `docs/unsafe.md`, which gives the reasons. Both must name the same files.
//!
//! clippy checks that each block has its own reason (`undocumented_unsafe_blocks`).

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result, bail};

use crate::paths;

/// The document with the reasons.
const REASONS: &str = "docs/unsafe.md";
/// Folders with code, in both workspaces.
const FOLDERS: [&str; 6] = [
    "limiter-common",
    "limiter-ebpf",
    "limiter-fleet",
    "limiter-user",
    "tests",
    "xtask",
];

/// Compares the files with unsafe code to the document.
pub fn check() -> Result<()> {
    let root = paths::root();
    let text = fs::read_to_string(root.join(REASONS)).context(REASONS)?;
    let named = named(&text);
    let mut with_unsafe = BTreeSet::new();
    for folder in FOLDERS {
        for (path, text) in paths::sources_in(&root.join(folder))? {
            if text.lines().any(has_unsafe) {
                with_unsafe.insert(path.strip_prefix(&root)?.display().to_string());
            }
        }
    }
    let list = |files: Vec<&String>| {
        let names: Vec<&str> = files.into_iter().map(String::as_str).collect();
        names.join(", ")
    };
    let new = list(with_unsafe.difference(&named).collect());
    if !new.is_empty() {
        bail!("unsafe code in {new}: do without, or say why in {REASONS}");
    }
    let gone = list(named.difference(&with_unsafe).collect());
    if !gone.is_empty() {
        bail!("{REASONS} names {gone}, without unsafe code: take it out");
    }
    Ok(())
}

/// The files in the first column of the document's tables.
fn named(text: &str) -> BTreeSet<String> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = cells.filter_map(|cell| cell.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// Whether a line contains the keyword outside of comments and strings.
fn has_unsafe(line: &str) -> bool {
    // An escaped quotation mark does not end a string.
    let line = line.replace("\\\"", "");
    let code = line.split("//").next().unwrap_or_default();
    let outside_of_text = code.split('"').step_by(2);
    outside_of_text
        .flat_map(|code| code.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .any(|word| word == KEYWORD)
}

/// The keyword. It is in a string, which this check ignores.
const KEYWORD: &str = "unsafe";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyword_is_found_in_code_alone() {
        for code in [
            "    let x = unsafe { y };",
            "unsafe impl Send for X {}",
            "#[unsafe(no_mangle)]",
            "call(\"text\", unsafe { y })",
        ] {
            assert!(has_unsafe(code), "{code}");
        }
        for code in [
            "// unsafe { }",
            "/// Nothing unsafe.",
            "#![forbid(unsafe_code)]",
            "assert!(!policy.contains(\"unsafe\"));",
        ] {
            assert!(!has_unsafe(code), "{code}");
        }
    }

    #[test]
    fn files_are_read_from_tables() {
        let text = "# x\n`no.rs`\n| `a/b.rs` | why |\n| `c.rs`, more | `d.rs` |\n";
        let expected = ["a/b.rs", "c.rs"].map(str::to_owned);
        assert_eq!(named(text), expected.into());
    }

    #[test]
    fn this_checkout_is_so() {
        check().expect("files and reasons are the same");
    }
}
