//! Checks which part may import which: the one-way rules of ARCHITECTURE.md, in the sources.

use std::{collections::BTreeSet, fs};

use anyhow::{Result, bail};

use crate::{
    imports::{self, Imports},
    paths,
};

/// Packages that talk to the kernel.
const OF_KERNEL: [&str; 2] = ["aya", "rtnetlink"];

/// Each crate, with those of this workspace and of [`OF_KERNEL`] that it may depend on.
const CRATES: [(&str, &str); 8] = [
    ("limiter-common", ""),
    ("limiter-config", "limiter-common limiter-lists"),
    ("limiter-feed", "limiter-config limiter-lists"),
    ("limiter-fleet", "limiter-common"),
    ("limiter-lists", ""),
    ("limiter-specialise", ""),
    (
        "limiter-kernel",
        "aya rtnetlink limiter-common limiter-config limiter-specialise",
    ),
    (
        "limiter-user",
        "limiter-common limiter-config limiter-feed limiter-fleet limiter-kernel",
    ),
];

/// A crate and its folder, with the folders that its files may import.
const RULES: [(&str, &str); 7] = [
    // It gets readings over a socket.
    ("limiter-user", "export: export helper observe"),
    ("limiter-user", "show: observe plan show"),
    ("limiter-kernel", "error: "),
    ("limiter-kernel", "sys: error sys"),
    ("limiter-kernel", "program: error program sys"),
    ("limiter-kernel", "state: error program state sys"),
    ("limiter-kernel", "probe: error probe state sys"),
];

/// Each crate, with the most files that one import circle has. Above three, a circle is to be opened: the number only
/// falls.
const CIRCLE_MAX: [(&str, usize); 12] = [
    ("limiter-common", 3),
    ("limiter-config", 2),
    ("limiter-ebpf", 1),
    ("limiter-feed", 1),
    ("limiter-fleet", 2),
    ("limiter-kernel", 3),
    ("limiter-lists", 2),
    ("limiter-specialise", 1),
    ("limiter-user", 3),
    ("tests", 2),
    ("tests/load", 2),
    ("xtask", 3),
];

/// Checks all rules.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for (name, allowed) in CRATES {
        let allowed: Vec<_> = allowed.split(' ').collect();
        let found = dependencies(name)?.into_iter();
        let bound =
            found.filter(|other| other.starts_with("limiter-") || OF_KERNEL.contains(&&**other));
        for other in bound.filter(|other| !allowed.contains(&&**other)) {
            wrong.push(format!("{name} depends on {other}"));
        }
    }
    for name in dependencies("limiter-common")? {
        if name != "network-types" {
            wrong.push(format!("limiter-common depends on {name}"));
        }
    }
    for (name, rule) in RULES {
        forbidden_imports(&of_crate(name)?, rule, &mut wrong);
    }
    for (name, most) in CIRCLE_MAX {
        let imports = of_crate(name)?;
        let circles = imports::circles(&imports).into_iter();
        for circle in circles.filter(|circle| circle.len() > most) {
            let files = circle.into_iter().collect::<Vec<_>>().join(", ");
            wrong.push(format!("{name}: files that import each other: {files}"));
        }
    }
    if !wrong.is_empty() {
        bail!("the one-way rules of ARCHITECTURE.md: {}", wrong.join("; "));
    }
    Ok(())
}

fn of_crate(name: &str) -> Result<Imports> {
    imports::of_crate(&paths::root().join(name).join("src"))
}

/// The packages that a crate depends on, apart from its tests.
fn dependencies(name: &str) -> Result<BTreeSet<String>> {
    let manifest = fs::read_to_string(paths::root().join(name).join("Cargo.toml"))?;
    let manifest: toml::Table = toml::from_str(&manifest)?;
    let dependencies = manifest.get("dependencies").and_then(|all| all.as_table());
    let names = dependencies.into_iter().flat_map(|all| all.keys());
    Ok(names.cloned().collect())
}

fn is_in(file: &str, part: &str) -> bool {
    file.strip_prefix(part)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn forbidden_imports(imports: &Imports, rule: &str, wrong: &mut Vec<String>) {
    let (part, allowed) = rule.split_once(": ").unwrap_or((rule, ""));
    let is_allowed = |other: &String| allowed.split(' ').any(|allowed| is_in(other, allowed));
    for (file, named) in imports.iter().filter(|(file, _)| is_in(file, part)) {
        if let Some(other) = named.iter().find(|other| !is_allowed(other)) {
            wrong.push(format!("{file} names {other}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_import_rules_hold() -> Result<()> {
        assert!(of_crate("limiter-ebpf")?.len() > 20);
        assert!(of_crate("limiter-user")?.len() > 100);
        check()
    }

    #[test]
    fn circles_are_no_smaller_than_they_may_be() -> Result<()> {
        for (name, most) in CIRCLE_MAX {
            let imports = of_crate(name)?;
            let sizes = imports::circles(&imports)
                .into_iter()
                .map(|circle| circle.len());
            assert_eq!(
                sizes.max().unwrap_or(1),
                most,
                "{name}: enter the smaller number"
            );
        }
        Ok(())
    }

    #[test]
    fn import_of_a_later_folder_is_reported() {
        let named = BTreeSet::from(["ops/attach".to_owned()]);
        let imports = Imports::from([("sys/link".to_owned(), named)]);
        let mut wrong = Vec::new();
        forbidden_imports(&imports, "sys: sys", &mut wrong);
        assert_eq!(wrong, ["sys/link names ops/attach"]);
    }
}
