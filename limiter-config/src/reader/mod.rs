//! Files in TOML whose keys are known: reading them, messages about mistakes, and printing.
//!
//! The reader is strict: an unknown key is a mistake. A text goes through `syntax` (TOML), the keys and values, and the
//! contradictions between them. A step reports all its mistakes at once, and the next one runs if there are none: so no
//! mistake follows from another.

mod keys;
mod mistakes;
mod print;
mod section;
mod syntax;
mod table;
mod value;
mod values;

pub use keys::{Keys, Known, place_of};
pub use mistakes::{Mistake, Mistakes};
pub use print::{array, lines, text as quoted};
pub use section::Section;
pub use table::{Keyed, Shown, read_table};
pub use toml::de::{DeTable, DeValue};
pub use value::{Read, Wrong, number, text, variant};
pub use values::{Scalar, Setting};

/// Reads a file with `tables`: `read` has the keys and values, and `check` the contradictions. Mistakes are in the order of
/// their lines.
pub fn parse<T>(
    text: &str,
    tables: &'static [&'static Keys],
    read: impl FnOnce(&DeTable, &mut Mistakes) -> T,
    check: impl FnOnce(&T, &DeTable, &mut Mistakes),
) -> Result<T, Vec<Mistake>> {
    let mut mistakes = Mistakes::new(text, tables);
    let tree = syntax::tree(text, &mut mistakes);
    mistakes.none()?;
    let file = read(tree.get_ref(), &mut mistakes);
    mistakes.none()?;
    check(&file, tree.get_ref(), &mut mistakes);
    mistakes.none()?;
    Ok(file)
}
