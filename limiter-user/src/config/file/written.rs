//! Printing values as in the file.

use std::fmt::Display;

/// Prints text with quotes, and escapes if needed.
pub(super) fn text(value: impl Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

pub(super) fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

/// Prints a single value, or an array of several.
pub(super) fn one_or_array(mut values: Vec<String>) -> String {
    match values.pop() {
        Some(value) if values.is_empty() => value,
        last => array(values.into_iter().chain(last)),
    }
}
