//! Finds the imports between a crate's source files: from the file that names an item to the file that defines it.
//!
//! A `pub use` is no import of its file: whoever names the item through it imports the file behind it. Test modules are
//! ignored, and so are names inside the arguments of macros.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, Result};

use crate::{
    modules::{self, Module, Modules},
    paths,
};

/// Files by module path (`ops/attach`), with the module paths that each names.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// Most names that lead from one to the next by re-exports. A longer chain is a circle of them.
const CHAIN_MAX: u32 = 16;

/// Reads the crate with its sources in `folder`.
pub fn of_crate(folder: &Path) -> Result<Imports> {
    let mut found = Modules::new();
    // Beside a library, `main` is the root of a crate of its own, and nothing of the library names it.
    let has_library = folder.join("lib.rs").exists();
    let root = if has_library { "lib" } else { "main" };
    for (path, text) in paths::sources_in(folder)? {
        let file = file_name(path.strip_prefix(folder)?);
        let syntax = syn::parse_file(&text).with_context(|| format!("parsing {file}"))?;
        modules::read(&file, root, &syntax, &mut found);
    }
    let tree = Tree(&found);
    let mut imports = Imports::new();
    for (own, module) in &found {
        let others = imports.entry(module.file.clone()).or_default();
        for path in &module.paths {
            others.extend(tree.files(own, path, CHAIN_MAX));
        }
        others.remove(&module.file);
    }
    Ok(imports)
}

/// The modules of a crate.
struct Tree<'a>(&'a Modules);

impl Tree<'_> {
    /// The files that define what `path` names in the module `own`; none if another crate does.
    fn files(&self, own: &str, path: &[String], chain: u32) -> BTreeSet<String> {
        let Some((first, rest)) = path.split_first().filter(|_| chain > 0) else {
            return BTreeSet::new();
        };
        match first.as_str() {
            "crate" => self.below("", rest, chain),
            "self" => self.below(own, rest, chain),
            "super" => self.below(parent(own), rest, chain),
            _ if self.0.contains_key(&modules::join(own, first)) => self.below(own, path, chain),
            _ => {
                let module = self.0.get(own).into_iter();
                let names = module.flat_map(|module| [&module.imported, &module.exported]);
                let targets = names.filter_map(|names| names.get(first)).flatten();
                // `use aya::Aya` would lead to itself.
                let targets = targets.filter(|target| target.first() != Some(first));
                self.behind(own, targets, rest, chain)
            }
        }
    }

    /// The files that define what `path` names below a module.
    fn below(&self, module: &str, path: &[String], chain: u32) -> BTreeSet<String> {
        let Some((first, rest)) = path.split_first() else {
            return self.file(module);
        };
        let child = modules::join(module, first);
        if first == "super" {
            return self.below(parent(module), rest, chain);
        }
        if self.0.contains_key(&child) {
            return self.below(&child, rest, chain);
        }
        let Some(Module {
            exported, globs, ..
        }) = self.0.get(module)
        else {
            return BTreeSet::new();
        };
        let mut found = self.behind(
            module,
            exported.get(first).into_iter().flatten(),
            rest,
            chain,
        );
        if found.is_empty() && !self.defines(module, first) {
            found = self.behind(module, globs, path, chain);
        }
        if found.is_empty() {
            self.file(module)
        } else {
            found
        }
    }

    /// The files that define the names `rest` below each of `targets`.
    fn behind<'t>(
        &self,
        own: &str,
        targets: impl IntoIterator<Item = &'t Vec<String>>,
        rest: &[String],
        chain: u32,
    ) -> BTreeSet<String> {
        let whole = |target: &Vec<String>| [target, rest].concat();
        let found = targets.into_iter().map(whole);
        found
            .flat_map(|path| self.files(own, &path, chain - 1))
            .collect()
    }

    fn defines(&self, module: &str, name: &str) -> bool {
        self.0
            .get(module)
            .is_some_and(|module| module.defined.contains(name))
    }

    fn file(&self, module: &str) -> BTreeSet<String> {
        let module = self.0.get(module);
        module
            .map(|module| module.file.clone())
            .into_iter()
            .collect()
    }
}

fn parent(module: &str) -> &str {
    module.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The name of a file: its module path. `mod.rs` stands for its folder.
fn file_name(file: &Path) -> String {
    let path = file.with_extension("").display().to_string();
    path.strip_suffix("/mod").unwrap_or(&path).to_owned()
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
        of_crate(folder.path()).unwrap()
    }

    #[track_caller]
    fn assert_imports(found: &Imports, file: &str, expected: &[&str]) {
        let named: Vec<_> = found[file].iter().map(String::as_str).collect();
        assert_eq!(named, expected, "{file}");
    }

    #[test]
    fn use_paths_and_trees_resolve_to_files() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; mod d; mod f;"),
            (
                "a/mod.rs",
                "mod x; use crate::{b::C, d::{self, E}}; // crate::f",
            ),
            ("a/x.rs", "fn g() -> super::Y { super::super::d::h() }"),
            ("b.rs", "mod tests { use crate::d; }"),
            ("d.rs", "use crate::b::C;"),
            ("f.rs", "fn i() { aya::j() }"),
        ]);
        assert_imports(&found, "a", &["b", "d"]);
        assert_imports(&found, "a/x", &["a", "d"]);
        assert_imports(&found, "b", &[]);
        assert_imports(&found, "d", &["b"]);
        assert_imports(&found, "f", &[]);
    }

    #[test]
    fn reexported_name_is_an_import_of_the_file_that_defines_it() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; mod c; pub use a::Deep;"),
            (
                "a/mod.rs",
                "mod x; mod y; pub use self::x::*; pub use y::Y as Z; pub struct Own;",
            ),
            ("a/x.rs", "pub struct Deep;"),
            ("a/y.rs", "pub struct Y; use self::super::Own;"),
            ("b.rs", "use crate::{Deep, a::{Own, Z}};"),
            ("c.rs", "use crate::a; fn f(_: a::Z) {}"),
        ]);
        assert_imports(&found, "a", &[]);
        assert_imports(&found, "a/y", &["a"]);
        assert_imports(&found, "b", &["a", "a/x", "a/y"]);
        assert_imports(&found, "c", &["a", "a/y"]);
    }

    #[test]
    fn names_in_modules_inside_a_file_are_found() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a/mod.rs",
                "pub mod inner { mod file; pub use file::Name; use super::super::b::B; }",
            ),
            ("a/inner/file.rs", "pub struct Name;"),
            ("b.rs", "use crate::a::inner::Name;"),
        ]);
        assert_imports(&found, "a", &["b"]);
        assert_imports(&found, "b", &["a/inner/file"]);
    }

    #[test]
    fn circle_through_a_reexport_is_found() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; mod y; pub use x::X;"),
            ("a/x.rs", "use super::y::Y; pub struct X;"),
            ("a/y.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::X;"),
        ]);
        let circle = BTreeSet::from(["a/x", "a/y", "b"]);
        assert_eq!(circles(&found), [circle].into());
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
