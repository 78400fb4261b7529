//! The file as TOML, and syntax errors.

use toml::{
    Spanned,
    de::{DeTable, Error},
};

use super::mistakes::Mistakes;

const DUPLICATE: &str = "duplicate key";
const NO_QUOTES: &str = "string values must be quoted";

/// Parses as much as possible, and reports text that is not TOML. `None` if the parser cannot interpret the rest: a
/// bracket that is never closed, or a broken header.
pub fn tree<'t>(text: &'t str, mistakes: &mut Mistakes) -> Option<Spanned<DeTable<'t>>> {
    let (tree, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(start);
    for error in &errors {
        let known = known(text, error);
        let leaves_the_rest = known.is_some();
        let message = known.unwrap_or_else(|| other(error));
        mistakes.syntax(mistakes.line(start(error)), message);
        if !leaves_the_rest {
            return None;
        }
    }
    Some(tree)
}

fn start(error: &Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// The message for a mistake that leaves everything else readable.
fn known(text: &str, error: &Error) -> Option<String> {
    let written = text.get(error.span()?)?;
    let message = error.message();
    if is_on_header(text, error) {
        return None;
    }
    if message.starts_with(DUPLICATE) {
        return Some(format!("'{written}' is written twice: remove one"));
    }
    if message.starts_with("invalid unquoted key") {
        return Some(other(error));
    }
    if message.starts_with(NO_QUOTES) {
        return Some(match written {
            "" => "a value is missing after '=': write one, or leave the key out".to_owned(),
            _ => format!(
                "the value {written} is a text without quotes: write \"{}\"",
                written.trim_matches('"')
            ),
        });
    }
    None
}

fn is_on_header(text: &str, error: &Error) -> bool {
    let line = text[..start(error)].rsplit('\n').next();
    line.is_some_and(|line| line.trim_start().starts_with('['))
}

/// The message for a mistake that makes the rest unreadable.
fn other(error: &Error) -> String {
    let message = error.message();
    if message.starts_with(DUPLICATE) {
        return "this header appears twice: write [[limit]] above each limit, and other headers once"
            .to_owned();
    }
    if message.starts_with(NO_QUOTES) {
        return "a bracket is open above this header: write ']' or '}' after its last value"
            .to_owned();
    }
    match message.split_once(", expected ") {
        Some((wrong, "nothing")) => format!("{wrong}: leave it out"),
        Some((wrong, expected)) => format!("{wrong}: write {expected}"),
        None => format!("{message}: write valid TOML"),
    }
}
