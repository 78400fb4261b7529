//! How values are written in the file.

use std::fmt::Display;

/// With quotes, and escapes where needed.
pub(super) fn text(value: impl Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

pub(super) fn array(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

/// The one value, or an array of all.
pub(super) fn one_or_array(mut values: Vec<String>) -> String {
    match values.pop() {
        Some(value) if values.is_empty() => value,
        last => array(values.into_iter().chain(last)),
    }
}
