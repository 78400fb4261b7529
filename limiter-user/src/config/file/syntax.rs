//! TOML, and what is wrong with it as such.

use toml::{
    Spanned,
    de::{DeTable, Error},
};

use super::mistakes::Mistakes;

const NO_VALUE: &str = "key with no value";
const DUPLICATE: &str = "duplicate key";
const NO_QUOTES: &str = "string values must be quoted";
/// Each takes another pass over the text: a file with more is not a configuration file.
const LONE_KEYS_MAX: usize = 50;

/// Whether there is nothing to repair.
pub fn is_toml(text: &str) -> bool {
    DeTable::parse_recoverable(text).1.is_empty()
}

/// The parser stops at a key without a value: these are told and overwritten one by one.
pub fn without_lone_keys(mut text: String, mistakes: &mut Mistakes) -> String {
    for _ in 0..LONE_KEYS_MAX {
        let Some(offset) = lone_key(&text) else {
            break;
        };
        mistakes.syntax(
            mistakes.line(offset),
            "a key without a value: write it as in key = value, or # in front of a comment"
                .to_owned(),
        );
        let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[offset..]
            .find('\n')
            .map_or(text.len(), |length| offset + length);
        text.replace_range(start..end, &" ".repeat(end - start));
    }
    text
}

fn lone_key(text: &str) -> Option<usize> {
    let (_, errors) = DeTable::parse_recoverable(text);
    let error = errors
        .iter()
        .find(|error| error.message().starts_with(NO_VALUE))?;
    // The end of a line counts to the line, and the place may be the end of the text.
    error.span().map(|span| span.start)
}

/// All that can be read. Everything else is told.
pub fn tree<'t>(text: &'t str, mistakes: &mut Mistakes) -> Spanned<DeTable<'t>> {
    let (tree, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(start);
    // A table that is there twice makes each of its keys be there twice.
    let mut twice_until = 0;
    for error in &errors {
        let line = mistakes.line(start(error));
        let duplicate = error.message().starts_with(DUPLICATE);
        if duplicate && line < twice_until {
            continue;
        }
        let header = duplicate && is_on_header(text, start(error));
        if header {
            twice_until = mistakes.section_end(line);
        }
        let message = match error.span().and_then(|span| text.get(span)) {
            Some(written) if duplicate => twice(written, header),
            Some(written) if error.message().starts_with(NO_QUOTES) => unquoted(written),
            _ if is_string(error.message()) => no_string(text, start(error)),
            _ => other(error.message()),
        };
        mistakes.syntax(line, message);
    }
    tree
}

fn start(error: &Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

fn is_on_header(text: &str, offset: usize) -> bool {
    let line = text[..offset].rsplit('\n').next().unwrap_or_default();
    line.trim_start().starts_with('[')
}

fn twice(key: &str, header: bool) -> String {
    if header && key == "limit" {
        return "[limit] makes one limit only: write [[limit]] above each".to_owned();
    }
    format!("'{key}' is written twice: leave one")
}

fn unquoted(value: &str) -> String {
    if value.is_empty() {
        return "a value is missing behind '=': write one, or leave the key out".to_owned();
    }
    format!(
        "the value {value} is a text without quotes: write \"{}\"",
        value.trim_matches('"')
    )
}

fn is_string(message: &str) -> bool {
    message.ends_with("string, expected `\"`") || message.ends_with("string, expected `'`")
}

/// The parser expects a quote where there is none: at the end, or both.
fn no_string(text: &str, end: usize) -> String {
    let line = text[..end].rsplit('\n').next().unwrap_or_default();
    if line.contains(['"', '\'']) {
        return "a string begins and does not end on this line: write the quote behind it"
            .to_owned();
    }
    "a value is missing: write it as in key = value".to_owned()
}

/// In the parser's words.
fn other(message: &str) -> String {
    match message.split_once(", expected ") {
        Some((wrong, "nothing")) => format!("{wrong}: leave it out"),
        Some((wrong, expected)) => format!("{wrong}: write {expected}"),
        None => format!("{message}: write it as TOML has it"),
    }
}
