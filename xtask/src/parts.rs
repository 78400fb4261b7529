//! Checks which part may import which: the one-way rules of ARCHITECTURE.md, in the sources.

use std::{fs, path::PathBuf};

use anyhow::{Result, bail};

use crate::{
    imports::{self, Imports},
    paths,
};

/// For each folder of `limiter-user`: the other folders that its files may import.
const RULES: [(&str, &[&str]); 8] = [
    ("config", &["config", "files"]),
    // `export` gets readings over a socket.
    ("export", &["export", "helper", "observe"]),
    ("show", &["config", "observe", "plan", "show"]),
    ("kernel/error", &["config"]),
    ("kernel/sys", &["kernel/error", "kernel/sys"]),
    (
        "kernel/program",
        &["config", "kernel/error", "kernel/program", "kernel/sys"],
    ),
    (
        "kernel/state",
        &[
            "config",
            "kernel/error",
            "kernel/program",
            "kernel/state",
            "kernel/sys",
        ],
    ),
    (
        "kernel/probe",
        &["kernel/error", "kernel/probe", "kernel/state", "kernel/sys"],
    ),
];

/// Maximum number of files of `limiter-user` in one import circle.
const CIRCLE_MAX: usize = 3;

/// Checks all rules.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    crates(&mut wrong)?;
    let user = imports::of_crate(&user())?;
    for (part, allowed) in RULES {
        strangers(&user, part, allowed, &mut wrong);
    }
    for (file, text) in paths::sources_in(&self::user())? {
        let is_kernel = file.starts_with(self::user().join("kernel"));
        if !is_kernel && code(&text).any(|line| line.contains("aya::")) {
            wrong.push(format!("{} names aya, as kernel alone may", file.display()));
        }
    }
    too_large(&user, CIRCLE_MAX, &mut wrong);
    let fleet = imports::of_crate(&paths::root().join("limiter-fleet/src"))?;
    too_large(&fleet, CIRCLE_MAX, &mut wrong);
    too_large(&program()?, 1, &mut wrong);
    if !wrong.is_empty() {
        bail!("the one-way rules of ARCHITECTURE.md: {}", wrong.join("; "));
    }
    Ok(())
}

fn user() -> PathBuf {
    paths::root().join("limiter-user/src")
}

/// The imports of the BPF program.
fn program() -> Result<Imports> {
    imports::of_crate(&paths::root().join("limiter-ebpf/src"))
}

/// Checks that `limiter-common` depends on nothing, and `limiter-fleet` not on `limiter-user`.
fn crates(wrong: &mut Vec<String>) -> Result<()> {
    let dependencies = |name: &str| -> Result<toml::Table> {
        let text = fs::read_to_string(paths::root().join(name).join("Cargo.toml"))?;
        let mut manifest: toml::Table = toml::from_str(&text)?;
        let dependencies = manifest.remove("dependencies");
        Ok(dependencies.map_or(Ok(toml::Table::new()), toml::Value::try_into)?)
    };
    if !dependencies("limiter-common")?.is_empty() {
        wrong.push("limiter-common has dependencies".into());
    }
    if dependencies("limiter-fleet")?.contains_key("limiter-user") {
        wrong.push("limiter-fleet depends on limiter-user".into());
    }
    Ok(())
}

fn is_in(file: &str, part: &str) -> bool {
    file.strip_prefix(part)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn strangers(imports: &Imports, part: &str, allowed: &[&str], wrong: &mut Vec<String>) {
    for (file, named) in imports.iter().filter(|(file, _)| is_in(file, part)) {
        let mut others = named.iter();
        // `kernel` itself only re-exports names.
        if let Some(other) = others.find(|other| {
            *other != "kernel" && !allowed.iter().any(|allowed| is_in(other, allowed))
        }) {
            wrong.push(format!("{file} names {other}"));
        }
    }
}

fn too_large(imports: &Imports, most: usize, wrong: &mut Vec<String>) {
    for circle in imports::circles(imports) {
        if circle.len() > most {
            let files: Vec<_> = circle.into_iter().collect();
            wrong.push(format!(
                "files that import each other: {}",
                files.join(", ")
            ));
        }
    }
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_rules_hold_and_all_files_are_read() -> Result<()> {
        assert!(program()?.len() > 20, "the files of the program are found");
        assert!(imports::of_crate(&user())?.len() > 200);
        check()
    }

    #[test]
    fn import_of_a_later_folder_is_told() {
        let named = BTreeSet::from(["kernel/ops/attach".to_owned()]);
        let imports = Imports::from([("kernel/sys/link".to_owned(), named)]);
        let mut wrong = Vec::new();
        strangers(&imports, "kernel/sys", &["kernel/sys"], &mut wrong);
        assert_eq!(wrong, ["kernel/sys/link names kernel/ops/attach"]);
    }
}
