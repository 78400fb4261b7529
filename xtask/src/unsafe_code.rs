//! Compares the files with unsafe code to `docs/unsafe.md`, which gives the reasons. Both must name the same files.
//!
//! clippy checks that each block has its own reason (`undocumented_unsafe_blocks`).

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result, anyhow, bail};
use proc_macro2::{TokenStream, TokenTree};

use crate::paths;

/// The document with the reasons.
const REASONS: &str = "docs/unsafe.md";
/// Compares the files with unsafe code to the document.
pub fn check() -> Result<()> {
    let root = paths::root();
    let text = fs::read_to_string(root.join(REASONS)).context(REASONS)?;
    let named = named(&text);
    let mut with_unsafe = BTreeSet::new();
    for folder in paths::CRATES {
        for (path, text) in paths::sources_in(&root.join(folder))? {
            let tokens = text
                .parse()
                .map_err(|error| anyhow!("{}: {error}", path.display()))?;
            if has_unsafe(tokens) {
                with_unsafe.insert(path.strip_prefix(&root)?.display().to_string());
            }
        }
    }
    if let Some(file) = with_unsafe.difference(&named).next() {
        bail!("unsafe code in {file}: remove it, or give the reason in {REASONS}");
    }
    if let Some(file) = named.difference(&with_unsafe).next() {
        bail!("{REASONS} names {file}, without unsafe code: take it out");
    }
    Ok(())
}

/// The files in the first column of the document's tables.
fn named(text: &str) -> BTreeSet<String> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = cells.filter_map(|cell| cell.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// True if the tokens contain the keyword.
fn has_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "unsafe",
        TokenTree::Group(group) => has_unsafe(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_keyword_is_found_only_in_code() {
        let has_unsafe = |code: &str| has_unsafe(code.parse().unwrap());
        assert!(has_unsafe("fn x() { call(\"text\", unsafe { y }) }"));
        assert!(has_unsafe("#[unsafe(no_mangle)]"));
        assert!(!has_unsafe(
            "/// Nothing unsafe.\n#![forbid(unsafe_code)] // unsafe { }"
        ));
        assert!(!has_unsafe("assert!(!policy.contains(\"unsafe\"));"));
    }

    #[test]
    fn documented_unsafe_files_match_the_checkout() {
        check().expect("files and reasons are the same");
    }
}
