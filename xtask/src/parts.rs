//! Checks which part may import which: the one-way rules of ARCHITECTURE.md, in the sources.

use std::fs;

use anyhow::{Result, bail};

use crate::{
    imports::{self, Imports},
    paths,
};

/// Each folder of `limiter-user`, with the folders that its files may import.
const RULES: [&str; 7] = [
    // It gets readings over a socket.
    "export: export helper observe",
    "show: observe plan show",
    "kernel/error: ",
    "kernel/sys: kernel/error kernel/sys",
    "kernel/program: kernel/error kernel/program kernel/sys",
    "kernel/state: kernel/error kernel/program kernel/state kernel/sys",
    "kernel/probe: kernel/error kernel/probe kernel/state kernel/sys",
];

/// Each crate, with the most files that one import circle has. Above three, a circle is to be opened: the number only
/// falls.
const CIRCLE_MAX: [(&str, usize); 8] = [
    ("limiter-common", 6),
    ("limiter-config", 2),
    ("limiter-ebpf", 1),
    ("limiter-feed", 2),
    ("limiter-fleet", 7),
    ("limiter-user", 3),
    ("tests", 8),
    ("xtask", 4),
];

/// Checks all rules.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    let manifest = fs::read_to_string(paths::root().join("limiter-common/Cargo.toml"))?;
    if toml::from_str::<toml::Table>(&manifest)?.contains_key("dependencies") {
        wrong.push("limiter-common has dependencies".to_owned());
    }
    let user = of_crate("limiter-user")?;
    for rule in RULES {
        forbidden_imports(&user, rule, &mut wrong);
    }
    let with_aya = user.iter().filter(|(_, named)| named.contains("aya"));
    for (file, _) in with_aya.filter(|(file, _)| !is_in(file, "kernel")) {
        wrong.push(format!("{file} names aya, as kernel alone may"));
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
    imports::of_crate(&paths::root().join(name).join("src"), &["aya"])
}

fn is_in(file: &str, part: &str) -> bool {
    file.strip_prefix(part)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn forbidden_imports(imports: &Imports, rule: &str, wrong: &mut Vec<String>) {
    let (part, allowed) = rule.split_once(": ").unwrap_or((rule, ""));
    // `kernel` itself only re-exports names.
    let is_allowed = |other: &String| {
        ["aya", "kernel"].contains(&other.as_str())
            || allowed.split(' ').any(|allowed| is_in(other, allowed))
    };
    for (file, named) in imports.iter().filter(|(file, _)| is_in(file, part)) {
        if let Some(other) = named.iter().find(|other| !is_allowed(other)) {
            wrong.push(format!("{file} names {other}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        let named = BTreeSet::from(["kernel/ops/attach".to_owned()]);
        let imports = Imports::from([("kernel/sys/link".to_owned(), named)]);
        let mut wrong = Vec::new();
        forbidden_imports(&imports, "kernel/sys: kernel/sys", &mut wrong);
        assert_eq!(wrong, ["kernel/sys/link names kernel/ops/attach"]);
    }
}
