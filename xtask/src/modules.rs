//! Reads the modules of a crate: the names that each defines, imports, exports and uses.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, UseTree, Visibility, visit::Visit};

/// Modules by path (`ops/attach`). The root is "".
pub type Modules = BTreeMap<String, Module>;

/// The parts of a path, as in `crate::config::Rate`.
pub type Names = Vec<String>;

/// A module: a file, or a module inside a file.
#[derive(Default)]
pub struct Module {
    /// The file's path, without ending; `mod.rs` stands for its folder.
    pub file: String,
    /// Paths that the module uses, without those that it re-exports.
    pub paths: BTreeSet<Names>,
    /// Names that it imports, with the paths that they stand for.
    pub imported: BTreeMap<String, Vec<Names>>,
    /// Names that it re-exports, with the paths that they stand for.
    pub exported: BTreeMap<String, Vec<Names>>,
    /// Modules of which it re-exports all names.
    pub globs: Vec<Names>,
    /// Items that it defines.
    pub defined: BTreeSet<String>,
}

/// Reads a file, and adds its modules. `root` is the file of the crate's root.
pub fn read(file: &str, root: &str, syntax: &syn::File, modules: &mut Modules) {
    let path = if file == root { "" } else { file };
    of_items(file, path, &syntax.items, modules);
}

fn of_items(file: &str, path: &str, items: &[Item], modules: &mut Modules) {
    let mut module = Module {
        file: file.to_owned(),
        ..Module::default()
    };
    for item in items {
        module.visit_item(item);
        if let Item::Mod(inner) = item
            && inner.ident != "tests"
            && let Some((_, items)) = &inner.content
        {
            of_items(file, &join(path, &inner.ident.to_string()), items, modules);
        }
    }
    modules.insert(path.to_owned(), module);
}

/// The path of a module inside another one.
pub fn join(module: &str, name: &str) -> String {
    if module.is_empty() {
        name.to_owned()
    } else {
        format!("{module}/{name}")
    }
}

impl Module {
    fn import(&mut self, before: &[String], tree: &UseTree, is_public: bool) {
        let joined = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&joined(&path.ident), &path.tree, is_public),
            UseTree::Group(group) => {
                let trees = group.items.iter();
                trees.for_each(|tree| self.import(before, tree, is_public));
            }
            // `use a::{self}` is `use a`.
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last() {
                    self.name(last.clone(), before.to_vec(), is_public);
                }
            }
            UseTree::Name(name) => {
                self.name(name.ident.to_string(), joined(&name.ident), is_public);
            }
            UseTree::Rename(name) => {
                self.name(name.rename.to_string(), joined(&name.ident), is_public);
            }
            UseTree::Glob(_) if is_public => self.globs.push(before.to_vec()),
            UseTree::Glob(_) => {
                self.paths.insert(before.to_vec());
            }
        }
    }

    fn name(&mut self, name: String, path: Names, is_public: bool) {
        let names = if is_public {
            &mut self.exported
        } else {
            self.paths.insert(path.clone());
            &mut self.imported
        };
        names.entry(name).or_default().push(path);
    }

    fn define(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            _ => return,
        };
        self.defined.insert(name.to_string());
    }
}

impl Visit<'_> for Module {
    fn visit_item(&mut self, item: &Item) {
        self.define(item);
        syn::visit::visit_item(self, item);
    }

    /// Modules inside the file are read on their own.
    fn visit_item_mod(&mut self, _: &syn::ItemMod) {}

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.import(&[], &item.tree, is_public);
    }

    /// `pub(crate)` names no file.
    fn visit_vis_restricted(&mut self, _: &syn::VisRestricted) {}

    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.paths.insert(names.collect());
        syn::visit::visit_path(self, path);
    }
}
