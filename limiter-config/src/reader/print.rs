//! Printing values as in the file.

use std::fmt::Display;

/// A key, and its value if it is written.
pub type Field = (&'static str, Option<String>);

/// Prints text with quotes, and escapes if needed.
pub fn text(value: impl Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

/// Prints an array.
pub fn array(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", joined(values))
}

/// Prints a table within a line.
pub fn table(fields: impl IntoIterator<Item = Field>) -> String {
    format!("{{ {} }}", joined(written(fields)))
}

/// Prints each key on a line of its own.
pub fn lines(fields: impl IntoIterator<Item = Field>) -> String {
    written(fields).map(|field| field + "\n").collect()
}

fn written(fields: impl IntoIterator<Item = Field>) -> impl Iterator<Item = String> {
    let fields = fields.into_iter();
    fields.filter_map(|(key, value)| Some(format!("{key} = {}", value?)))
}

fn joined(values: impl IntoIterator<Item = String>) -> String {
    values.into_iter().collect::<Vec<_>>().join(", ")
}
