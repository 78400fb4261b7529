//! `cargo xtask book`: the documents as a book, by mdBook.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{
    install::Program,
    paths,
    process::{cargo, output, progress, run},
};

const MDBOOK: Program = Program("mdbook", "0.5.4");

const SETTINGS: &str = "[book]\ntitle = \"limiter\"\nlanguage = \"en\"\n";

/// Builds the book into `book/html` of the target folder.
pub fn build() -> Result<()> {
    let book = paths::target().join("book");
    if book.exists() {
        fs::remove_dir_all(&book)?;
    }
    let pages = book.join("src");
    for page in tracked_documents()? {
        let to = pages.join(&page);
        fs::create_dir_all(to.parent().unwrap_or(&pages))?;
        fs::copy(paths::root().join(&page), to).with_context(|| format!("cannot copy {page}"))?;
    }
    let summary = fs::read_to_string(paths::root().join("docs/SUMMARY.md"))?;
    fs::write(pages.join("SUMMARY.md"), from_root(&summary))?;
    fs::write(book.join("book.toml"), SETTINGS)?;
    let mut mdbook = Command::new(MDBOOK.set_up(cargo(), &[])?);
    run(mdbook.args(["build", "--dest-dir", "html"]).arg(&book))?;
    progress(&format!("built {}", book.join("html/index.html").display()));
    Ok(())
}

/// The documents and their pictures that git tracks.
fn tracked_documents() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(paths::root());
    let files = output(git.args(["ls-files", ":(glob)*.md", "docs"]))?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// The pages among the documents.
pub fn pages() -> Result<Vec<String>> {
    let mut pages = tracked_documents()?;
    pages.retain(|page| Path::new(page).extension().is_some_and(|end| end == "md"));
    Ok(pages)
}

/// Rewrites the links of the summary, which are relative to `docs`, to the root folder.
fn from_root(summary: &str) -> String {
    summary.replace("](", "](docs/").replace("](docs/../", "](")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_in_the_summary() {
        let root = paths::root();
        let summary = from_root(&fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap());
        for page in pages().unwrap() {
            if page != "docs/SUMMARY.md" {
                assert!(
                    summary.contains(&format!("]({page})")),
                    "{page} is not in docs/SUMMARY.md"
                );
            }
        }
        for link in summary.split("](").skip(1) {
            let page = link.split(')').next().unwrap();
            assert!(root.join(page).is_file(), "docs/SUMMARY.md names {page}");
        }
    }
}
