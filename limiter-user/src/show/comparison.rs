//! `config diff` as text.

use crate::observe::Difference;

/// A line for each change, or one that says that there is none.
pub fn lines(difference: &Difference) -> String {
    let Difference {
        interface,
        file,
        changes,
    } = difference;
    if changes.is_empty() {
        return format!("{interface}: no difference: {file} has the settings in force\n");
    }
    let head = format!("{interface}: in force -> {file}\n");
    let lines = changes.iter();
    head + &lines
        .map(|line| format!("{interface}: {line}\n"))
        .collect::<String>()
}
