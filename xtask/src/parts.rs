//! Which part may know of which: the one-way rules of ARCHITECTURE.md, looked up in the sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::paths;

/// What a part of `limiter-user` may name of the others.
const RULES: [(&str, &[&str]); 4] = [
    ("config", &["config", "files"]),
    // What it asks for readings, over a socket.
    ("export", &["export", "keeper", "stats"]),
    // The tables are somebody else's: it is held against models.
    ("fleet", &["fleet", "files"]),
    ("view", &["config", "stats", "view"]),
];

/// Whether all rules hold.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    common(&mut wrong)?;
    for (part, allowed) in RULES {
        for (file, text) in sources(&user().join(part))? {
            let names = named(&text).into_iter();
            let others: Vec<_> = names
                .filter(|name| !allowed.contains(&name.as_str()))
                .collect();
            if !others.is_empty() {
                wrong.push(format!("{} names {}", file.display(), others.join(", ")));
            }
        }
    }
    for (file, text) in sources(&user())? {
        let is_kernel = file.starts_with(user().join("kernel"));
        if !is_kernel && code(&text).any(|line| line.contains("aya::")) {
            wrong.push(format!("{} names aya, as kernel alone may", file.display()));
        }
    }
    if let Some(file) = in_a_circle(&calls()?) {
        wrong.push(format!(
            "limiter-ebpf/src/{file}.rs calls what leads back to it"
        ));
    }
    if !wrong.is_empty() {
        bail!("the one-way rules of ARCHITECTURE.md: {}", wrong.join("; "));
    }
    Ok(())
}

fn user() -> PathBuf {
    paths::root().join("limiter-user/src")
}

/// `limiter-common` depends on nothing.
fn common(wrong: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(paths::root().join("limiter-common/Cargo.toml"))?;
    let manifest: toml::Table = toml::from_str(&text)?;
    if manifest.contains_key("dependencies") {
        wrong.push("limiter-common has dependencies".into());
    }
    Ok(())
}

/// Which files of the program name which others.
fn calls() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let files = sources(&paths::root().join("limiter-ebpf/src"))?;
    let calls = files.into_iter().filter_map(|(file, text)| {
        let name = file.file_stem()?.to_str()?.to_owned();
        Some((name, named(&text)))
    });
    Ok(calls.collect())
}

/// A file from which calls lead back to it: takes away those that call nobody who is left, until all are gone.
fn in_a_circle(calls: &BTreeMap<String, BTreeSet<String>>) -> Option<&String> {
    let mut left: BTreeSet<&String> = calls.keys().collect();
    loop {
        let ends = |file: &&&String| !calls[**file].iter().any(|other| left.contains(other));
        let gone: Vec<&String> = left.iter().filter(ends).copied().collect();
        if gone.is_empty() {
            return left.first().copied();
        }
        gone.iter().for_each(|file| {
            left.remove(*file);
        });
    }
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
}

/// What stands behind `crate::`, be it one name or several in braces.
fn named(text: &str) -> BTreeSet<String> {
    let text = code(text).collect::<Vec<_>>().join("\n");
    let mut names = BTreeSet::new();
    for after in text.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(group) => names.extend(in_braces(group)),
            None => names.extend(word(after)),
        }
    }
    names
}

fn in_braces(group: &str) -> Vec<String> {
    let (mut depth, mut first, mut found) = (0, true, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => first = true,
            letter if first && !letter.is_whitespace() => {
                found.extend(word(&group[at..]));
                first = false;
            }
            _ => {}
        }
    }
    found
}

fn word(text: &str) -> Option<String> {
    let end = text
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    let word = &text[..end];
    let is_module = word.starts_with(|letter: char| letter.is_lowercase());
    is_module.then(|| word.to_owned())
}

fn sources(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let entries = fs::read_dir(folder);
    let entries = entries.with_context(|| format!("there is no {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            found.push((path, text));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_know_only_what_they_may() -> Result<()> {
        assert!(calls()?.len() > 20, "the program's files are found");
        check()
    }

    #[test]
    fn names_and_circles_are_found() {
        let text = "use crate::{a::B, c, d::{e, f}};\n// crate::g\ncrate::h::i(); crate::J";
        let names: Vec<_> = named(text).into_iter().collect();
        assert_eq!(names, ["a", "c", "d", "h"]);
        let calls = |pairs: &[(&str, &[&str])]| {
            let pairs = pairs.iter().map(|(file, others)| {
                let others = others.iter().map(|other| (*other).to_owned());
                ((*file).to_owned(), others.collect())
            });
            pairs.collect::<BTreeMap<String, BTreeSet<String>>>()
        };
        assert_eq!(in_a_circle(&calls(&[("a", &["b", "x"]), ("b", &[])])), None);
        assert!(in_a_circle(&calls(&[("a", &["b"]), ("b", &["a"])])).is_some());
    }
}
