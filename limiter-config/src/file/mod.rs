//! The configuration file: TOML ↔ [`Settings`].

mod content;
mod list_table;
mod problems;
mod rewrite;
mod rewrite_lists;
mod show;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use crate::reader::Mistake;
pub use content::{File, TABLES};
pub use rewrite::rewritten;
pub use show::{matches, show};

use crate::reader;

/// Reads a configuration file. `folder` is the file's folder: the files of its lists are relative to it. Mistakes are
/// in the order of their lines.
pub fn parse(text: &str, folder: &Path) -> Result<File, Vec<Mistake>> {
    reader::parse(
        text,
        TABLES,
        |root, mistakes| content::read(root, folder, mistakes),
        |file, root, mistakes| problems::report(&file.settings, root, mistakes),
    )
}
