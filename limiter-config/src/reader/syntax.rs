//! The file as TOML, and syntax errors.

use toml::{
    Spanned,
    de::{DeTable, Error},
};

use super::mistakes::Mistakes;

const DUPLICATE: &str = "duplicate key";
const NO_QUOTES: &str = "string values must be quoted";

/// Parses the text, and reports the first place that is not TOML. The parser's other errors may follow from it.
pub fn tree<'t>(text: &'t str, mistakes: &mut Mistakes) -> Spanned<DeTable<'t>> {
    let (tree, errors) = DeTable::parse_recoverable(text);
    let start = |error: &Error| error.span().map_or(0, |span| span.start);
    if let Some(error) = errors.iter().min_by_key(|error| start(error)) {
        let before = text[..start(error)].rsplit('\n').next();
        let on_header = before.is_some_and(|line| line.trim_start().starts_with('['));
        let written = error.span().and_then(|span| text.get(span));
        let message = message(error.message(), written.unwrap_or_default(), on_header);
        mistakes.add(mistakes.line(start(error)), message);
    }
    tree
}

/// The message for the parser's `error` about the `written` text.
fn message(error: &str, written: &str, on_header: bool) -> String {
    if error.starts_with(DUPLICATE) && on_header {
        return "this header appears twice: write [[limit]] above each limit, and other headers once"
            .to_owned();
    }
    if error.starts_with(DUPLICATE) {
        return format!("'{written}' is written twice: remove one");
    }
    if error.starts_with(NO_QUOTES) && on_header {
        return "a bracket is open above this header: write ']' or '}' after its last value"
            .to_owned();
    }
    if error.starts_with(NO_QUOTES) && written.is_empty() {
        return "a value is missing after '=': write one, or leave the key out".to_owned();
    }
    if error.starts_with(NO_QUOTES) {
        let unquoted = written.trim_matches(['"', '\'', '“', '”', '„', '‘', '’']);
        return format!("the value {written} is a text without quotes: write \"{unquoted}\"");
    }
    match error.split_once(", expected ") {
        Some((wrong, "nothing")) => format!("{wrong}: leave it out"),
        Some((wrong, expected)) => format!("{wrong}: write {expected}"),
        None => format!("{error}: write valid TOML"),
    }
}
