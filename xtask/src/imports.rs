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

/// Files by module path (`kernel/ops/attach`), with the module paths and the other crates that each names.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reads the crate with its sources in `folder`. `externals`: the names of other crates to look for.
pub fn of_crate(folder: &Path, externals: &[&str]) -> Result<Imports> {
    let mut texts = BTreeMap::new();
    for (path, text) in paths::sources_in(folder)? {
        texts.insert(module(path.strip_prefix(folder)?), text);
    }
    let mut imports = Imports::new();
    for (own, text) in &texts {
        let file = syn::parse_file(text).with_context(|| format!("parsing {own}"))?;
        let mut names = Names::default();
        names.visit_file(&file);
        let mut others = BTreeSet::new();
        for path in &names.0 {
            let first = path.split('/').next().unwrap_or_default();
            if externals.contains(&first) {
                others.insert(first.to_owned());
            }
            others.extend(resolve(own, path).and_then(|path| file_of(&path, &texts)));
        }
        others.remove(own);
        imports.insert(own.clone(), others);
    }
    Ok(imports)
}

/// The circles of files that import each other, each with all of its files.
pub fn circles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let files = imports.keys().map(String::as_str);
    let reached: BTreeMap<_, _> = files.map(|file| (file, reach(imports, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, reaches) in &reached {
        let is_back = |other: &&str| reached.get(other).is_some_and(|back| back.contains(file));
        let circle: BTreeSet<_> = reaches.iter().copied().filter(is_back).collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles
}

fn reach<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(next) = waiting.pop() {
        for other in imports.get(next).into_iter().flatten() {
            if reached.insert(other.as_str()) {
                waiting.push(other);
            }
        }
    }
    reached
}

/// The module path of a file. `mod.rs` stands for its folder.
fn module(file: &Path) -> String {
    let path = file.with_extension("").display().to_string();
    path.strip_suffix("/mod").unwrap_or(&path).to_owned()
}

/// Resolves a path after `crate` or `super`, relative to the root of the crate.
fn resolve(own: &str, path: &str) -> Option<String> {
    if let Some(path) = path.strip_prefix("crate/") {
        return Some(path.to_owned());
    }
    let (mut base, mut path) = (own, path.strip_prefix("super/")?);
    base = base.rsplit_once('/').map_or("", |(parent, _)| parent);
    while let Some(rest) = path.strip_prefix("super/") {
        base = base.rsplit_once('/').map_or("", |(parent, _)| parent);
        path = rest;
    }
    Some(format!("{base}/{path}").trim_start_matches('/').to_owned())
}

/// The file of a path: the longest part that is a module.
fn file_of(path: &str, texts: &BTreeMap<String, String>) -> Option<String> {
    if texts.contains_key(path) {
        return Some(path.to_owned());
    }
    file_of(path.rsplit_once('/')?.0, texts)
}

/// The paths in a file, with slashes.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn tree(&mut self, before: &str, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => self.tree(&format!("{before}{}/", path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
            UseTree::Name(name) => self.0.push(format!("{before}{}", name.ident)),
            UseTree::Rename(name) => self.0.push(format!("{before}{}", name.ident)),
            UseTree::Glob(_) => self.0.push(before.to_owned()),
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
        self.tree("", &item.tree);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.0.push(names.collect::<Vec<_>>().join("/"));
        syn::visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        of_crate(folder.path(), &["aya"]).unwrap()
    }

    #[test]
    fn use_paths_and_trees_resolve_to_files() {
        let found = imports(&[
            ("a/mod.rs", "use crate::{b::C, d::{self, E}}; // crate::f"),
            ("a/x.rs", "fn g() -> super::Y { super::super::d::h() }"),
            ("b.rs", "mod tests { use crate::d; }"),
            ("d.rs", "pub use crate::b::C as D;"),
            ("f.rs", "fn i() { aya::j() }"),
        ]);
        let named = |file: &str| found[file].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(named("a"), ["b", "d"]);
        assert_eq!(named("a/x"), ["a", "d"]);
        assert!(named("b").is_empty());
        assert_eq!(named("d"), ["b"]);
        assert_eq!(named("f"), ["aya"]);
    }

    #[test]
    fn import_cycles_contain_all_their_files() {
        let found = imports(&[
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::a;"),
        ]);
        assert_eq!(circles(&found), [BTreeSet::from(["a", "b", "c"])].into());
    }
}
