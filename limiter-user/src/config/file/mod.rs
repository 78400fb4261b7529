//! The configuration file: TOML ↔ [`Settings`].
//!
//! The parser is strict: an unknown key is a mistake. It reports all mistakes at once, apart from those behind text
//! without TOML syntax. A text goes through `syntax` (TOML), `whole` and `limit` (the meaning of keys), and `problems`
//! (contradictions). Each step ignores values that an earlier mistake has made doubtful, so one mistake is reported
//! once.

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
pub use value::nearest;

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
    let file = tree.map(|tree| whole::read(tree.get_ref(), folder, &mut mistakes));
    mistakes.none_or(file)
}
