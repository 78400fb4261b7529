//! The configuration file: TOML ↔ [`Settings`].
//!
//! Strict, and complete: what is not known is a mistake, and all mistakes are told at once, but for those behind a place
//! where the text is no TOML. A text goes through `syntax` (TOML), `whole` and `limit` (what the keys mean), and
//! `problems` (what does not go together). Each step leaves out what a mistake of an earlier one has made doubtful, so
//! that one mistake is told once.

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

pub use keys::ALL as TABLES;
pub use mistakes::Mistake;
pub use packets::show as matches;
pub use show::show;

use super::{Settings, ineffective::USUAL_FRAME};
use mistakes::Mistakes;

/// What a configuration file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The interfaces that it is for; empty where it names none.
    pub interfaces: Vec<String>,
    /// How they are to be limited.
    pub settings: Settings,
}

/// Reads a configuration file; `folder` is where it lies, for the files of lists that it names.
/// Mistakes are in the order of their lines.
pub fn parse(text: &str, folder: &Path) -> Result<File, Vec<Mistake>> {
    read(text, folder, |_| USUAL_FRAME).map(|(file, _)| file)
}

/// The same, with warnings about what has no effect where frames have at most `frame_max` bytes.
pub fn read(
    text: &str,
    folder: &Path,
    frame_max: impl Fn(&File) -> u64,
) -> Result<(File, Vec<Mistake>), Vec<Mistake>> {
    let mut mistakes = Mistakes::new(text);
    let tree = syntax::tree(text, &mut mistakes);
    let file = tree.map(|tree| whole::read(tree.get_ref(), folder, frame_max, &mut mistakes));
    mistakes.none_or(file)
}
