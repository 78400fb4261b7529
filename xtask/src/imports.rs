//! Finds the imports between a crate's source files: `use` and paths after `crate` and `super`.
//!
//! Test modules are ignored, and so are names inside the arguments of macros.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result};
use syn::{UseTree, visit::Visit};

use crate::paths;

/// Files by module path (`kernel/ops/attach`), with the module paths that each imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reads the crate with its sources in `folder`.
pub fn of_crate(folder: &Path) -> Result<Imports> {
    let mut texts = BTreeMap::new();
    for (path, text) in paths::sources_in(folder)? {
        texts.insert(module(path.strip_prefix(folder)?), text);
    }
    of_texts(&texts)
}

fn of_texts(texts: &BTreeMap<Vec<String>, String>) -> Result<Imports> {
    let mut imports = Imports::new();
    for (own, text) in texts {
        let file = syn::parse_file(text).with_context(|| format!("parsing {}", own.join("/")))?;
        let mut names = Names::default();
        names.visit_file(&file);
        let named = names.paths.iter().filter_map(|path| resolve(own, path));
        let files = named.filter_map(|path| {
            (1..=path.len())
                .rev()
                .map(|length| path[..length].to_vec())
                .find(|module| texts.contains_key(module))
        });
        let others = files.filter(|file| file != own);
        imports.insert(own.join("/"), others.map(|file| file.join("/")).collect());
    }
    Ok(imports)
}

/// The circles of files that import each other, each with all of its files.
pub fn circles(imports: &Imports) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| (file.as_str(), reach(imports, file)))
        .collect();
    let circles: BTreeSet<BTreeSet<&str>> = imports
        .keys()
        .map(|file| {
            let both = reached[file.as_str()].iter().copied();
            both.filter(|other| reached[other].contains(file.as_str()))
                .collect()
        })
        .collect();
    circles
        .into_iter()
        .filter(|circle| !circle.is_empty())
        .collect()
}

fn reach<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&str> = imports[file].iter().map(String::as_str).collect();
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(imports[next].iter().map(String::as_str));
        }
    }
    reached
}

/// The module path of a file. `mod.rs` stands for its folder.
fn module(file: &Path) -> Vec<String> {
    let path = file.with_extension("");
    let names = path.iter().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    if names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// Resolves a path after `crate` or `super`, relative to the root of the crate.
fn resolve(own: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    if first == "crate" {
        return Some(rest.to_vec());
    }
    let above = path.iter().take_while(|name| *name == "super").count();
    let base = own.get(..own.len().checked_sub(above)?)?;
    (above > 0).then(|| [base, &path[above..]].concat())
}

#[derive(Default)]
struct Names {
    paths: Vec<Vec<String>>,
}

impl Names {
    fn tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.tree(before, tree);
                }
            }
            UseTree::Name(name) => self.paths.push(with(&name.ident)),
            UseTree::Rename(name) => self.paths.push(with(&name.ident)),
            UseTree::Glob(_) => self.paths.push(before.to_vec()),
        }
    }
}

impl Visit<'_> for Names {
    fn visit_item_mod(&mut self, module: &syn::ItemMod) {
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.paths.push(names.collect());
        syn::visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Result<Imports> {
        let files = files.iter();
        let modules = files.map(|(file, text)| (module(Path::new(file)), (*text).to_owned()));
        of_texts(&modules.collect())
    }

    #[test]
    fn paths_and_trees_name_files() -> Result<()> {
        let found = imports(&[
            ("a/mod.rs", "use crate::{b::C, d::{self, E}}; // crate::f"),
            ("a/x.rs", "fn g() -> super::Y { super::super::d::h() }"),
            ("b.rs", "mod tests { use crate::d; }"),
            ("d.rs", "pub use crate::b::C as D;"),
            ("f.rs", ""),
        ])?;
        let named = |file: &str| found[file].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(named("a"), ["b", "d"]);
        assert_eq!(named("a/x"), ["a", "d"]);
        assert!(named("b").is_empty() && named("f").is_empty());
        assert_eq!(named("d"), ["b"]);
        Ok(())
    }

    #[test]
    fn circles_have_all_their_files() -> Result<()> {
        let found = imports(&[
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::a;"),
        ])?;
        assert_eq!(circles(&found), [BTreeSet::from(["a", "b", "c"])]);
        Ok(())
    }
}
