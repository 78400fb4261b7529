//! The configuration file: TOML ↔ [`Settings`].
//!
//! The parser is strict: an unknown key is a mistake. A text goes through `syntax` (TOML), `whole` and `limit` (keys and
//! values), and `problems` (contradictions). A step reports all its mistakes at once, and the next one runs if there are
//! none: so no mistake follows from another.

mod adaptive;
mod keys;
mod limit;
mod lists;
mod mistakes;
mod packets;
mod problems;
mod section;
mod show;
mod syntax;
#[cfg(test)]
mod tests;
mod value;
mod whole;
mod written;

use std::path::Path;

pub use keys::tables;
pub use mistakes::Mistake;
pub use packets::show as matches;
pub use show::show;

use super::Settings;
use mistakes::Mistakes;

/// The content of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The interfaces that the file names; may be empty.
    pub interfaces: Vec<String>,
    /// The settings for these interfaces.
    pub settings: Settings,
}

/// Reads a configuration file. `folder` is the file's folder: the files of its lists are relative to it. Mistakes are
/// in the order of their lines.
pub fn parse(text: &str, folder: &Path) -> Result<File, Vec<Mistake>> {
    let mut mistakes = Mistakes::new(text);
    let tree = syntax::tree(text, &mut mistakes);
    mistakes.none()?;
    let file = whole::read(tree.get_ref(), folder, &mut mistakes);
    mistakes.none()?;
    problems::report(&file.settings, tree.get_ref(), &mut mistakes);
    mistakes.none()?;
    Ok(file)
}
