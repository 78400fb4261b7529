//! Mechanical rules for texts, which the lint checks.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::{paths, process::output};

/// Lines that README.md may have.
const README_MAX: usize = 180;
/// Words with which no comment may begin, because they do not name its subject.
const OPENINGS: [&str; 8] = [
    "What ", "Who ", "Whoever ", "Where ", "How ", "Which ", "Whose ", "That of",
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
    for part in paths::CRATES {
        for (file, text) in paths::sources_in(&root.join(part))? {
            wrong.extend(comments(&file, &text));
        }
    }
    for page in pages()? {
        let text = fs::read_to_string(root.join(&page))?;
        wrong.extend(headings(&page, &text));
        wrong.extend(links(&root, &page, &text)?);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}", wrong.join("\n"))
}

/// The pages that git tracks.
fn pages() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(paths::root());
    let files = output(git.args(["ls-files", ":(glob)*.md", ":(glob)docs/**/*.md"]))?;
    Ok(files.lines().map(str::to_owned).collect())
}

/// First lines of comments that break a rule, and examples that nothing would compile.
fn comments(file: &Path, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut is_in_comment, mut is_in_block) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let words = comment.map(|comment| comment.trim_start_matches(['/', '!']).trim());
        if let Some(words) = words.filter(|_| !is_in_comment)
            && (OPENINGS.iter().any(|opening| words.starts_with(opening)) || EMPTY.contains(&words))
        {
            wrong.push(format!("{}:{}: {words}", file.display(), number + 1));
        }
        // Blocks with a language end with the bare marks.
        if let Some(words) = words.filter(|words| words.starts_with("```")) {
            if !is_in_block && words != "```text" {
                wrong.push(format!("{}:{}: {words}", file.display(), number + 1));
            }
            is_in_block = !is_in_block;
        }
        is_in_comment = words.is_some_and(|words| !words.is_empty());
    }
    wrong
}

/// The lines of a page outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let lines = text.lines().enumerate();
    lines.filter_map(move |(number, line)| {
        is_code ^= line.trim_start().starts_with("```");
        let shown = !is_code && !line.trim_start().starts_with("```");
        shown.then_some((number + 1, line))
    })
}

/// Headings that no text follows before the next heading of their level or above.
fn headings(page: &str, text: &str) -> Vec<String> {
    let level = |line: &str| line.len() - line.trim_start_matches('#').len();
    let mut wrong = Vec::new();
    for (number, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let next = text.lines().skip(number).find(|line| !line.is_empty());
        let is_empty = next.is_none_or(|next| next.starts_with('#') && level(next) <= level(line));
        if is_empty {
            wrong.push(format!("{page}:{number}: a heading without text: {line}"));
        }
    }
    wrong
}

/// Links into the repository that lead nowhere.
fn links(root: &Path, page: &str, text: &str) -> Result<Vec<String>> {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut wrong = Vec::new();
    for (number, line) in prose(text) {
        for link in line.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            if link.contains(':') {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root.join(page),
                file => root.join(folder).join(file),
            };
            if !target.exists()
                || !anchor.is_empty() && !anchors(&target)?.contains(&anchor.to_owned())
            {
                wrong.push(format!(
                    "{page}:{number}: a link that leads nowhere: {link}"
                ));
            }
        }
    }
    Ok(wrong)
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &PathBuf) -> Result<Vec<String>> {
    let text = fs::read_to_string(page)?;
    let headings = prose(&text).filter(|(_, line)| line.starts_with('#'));
    let anchor = |line: &str| {
        let line = line.trim_start_matches('#').trim().to_lowercase();
        let kept = line
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    Ok(headings.map(|(_, line)| anchor(line)).collect())
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
    fn example_in_a_comment_is_refused_because_it_would_not_run() {
        let text = "//! ```text\n//! map\n//! ```\n\n/// Adds.\n///\n/// ```\n/// add(1);\n/// ```\nfn add() {}\n";
        assert_eq!(comments(Path::new("a.rs"), text), ["a.rs:7: ```"]);
    }

    #[test]
    fn broken_links_and_empty_headings_are_refused() {
        let text =
            "# A\n\n[a](#a) [b](#b)\n\n## C\n\n## D\n\n[d](no.md), [e](https://example.org)\n";
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("page.md"), text).unwrap();
        let wrong = links(root.path(), "page.md", text).unwrap();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].ends_with("#b") && wrong[1].ends_with("no.md"));
        assert_eq!(
            headings("page.md", text),
            ["page.md:5: a heading without text: ## C"]
        );
    }

    #[test]
    fn every_page_is_in_the_summary() {
        let root = paths::root();
        let summary = fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap();
        // Links are relative to the page's folder.
        let summary = summary.replace("](", "](docs/").replace("](docs/../", "](");
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
