//! Single values: their types, and messages about wrong ones.

use std::fmt::Display;

use clap::ValueEnum;
use toml::de::{DeInteger, DeValue};

/// The reason why a value is refused.
pub enum Wrong {
    /// It has a type that the key does not take.
    Type,
    /// It means nothing, or nothing here.
    Value(String),
}

/// A value that was read, or the reason why not.
pub type Read<T> = Result<T, Wrong>;

impl Wrong {
    /// The reason for a value of a wrong type, with `write` as advice.
    pub fn type_of(value: &DeValue, write: &str) -> Self {
        let found = match value {
            DeValue::String(text) => format!("the text '{}'", text.escape_debug()),
            DeValue::Integer(number) => match integer(number) {
                Some(number) if number < 0 => format!("the negative number {number}"),
                _ => format!("the number {number}"),
            },
            DeValue::Float(number) => format!("the float {number}"),
            DeValue::Boolean(boolean) => boolean.to_string(),
            DeValue::Datetime(_) => "a date or time".to_owned(),
            DeValue::Array(items) if items.is_empty() => "an empty array".to_owned(),
            DeValue::Array(_) => "an array".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        Self::Value(format!("{found} is not allowed here: write {write}"))
    }
}

/// Reads a string by `read`.
pub fn text<T, E: Display>(value: &DeValue, read: impl Fn(&str) -> Result<T, E>) -> Read<T> {
    match value {
        DeValue::String(text) => read(text).map_err(|why| Wrong::Value(why.to_string())),
        _ => Err(Wrong::Type),
    }
}

/// Reads a string or a number by `read`, which gets a number's digits.
pub fn number<T, E: Display>(value: &DeValue, read: impl Fn(&str) -> Result<T, E>) -> Read<T> {
    let number = match value {
        DeValue::Integer(number) => integer(number).filter(|number| *number >= 0),
        _ => return text(value, read),
    };
    let digits = number.ok_or(Wrong::Type)?.to_string();
    read(&digits).map_err(|why| Wrong::Value(why.to_string()))
}

/// Reads `true` or `false`.
pub fn boolean(value: &DeValue) -> Read<bool> {
    match value {
        DeValue::Boolean(boolean) => Ok(*boolean),
        _ => Err(Wrong::type_of(value, "true or false")),
    }
}

/// Reads one of the variants of a type, by its name on the command line.
pub fn variant<T: ValueEnum>(value: &DeValue) -> Read<T> {
    let values = T::value_variants().iter();
    let names: Vec<_> = values.filter_map(ValueEnum::to_possible_value).collect();
    let names: Vec<_> = names.iter().map(|name| name.get_name()).collect();
    let write = format!("\"{}\"", names.join("\" or \""));
    let read = |text: &str| {
        T::from_str(text, false).map_err(|_| {
            let text = text.escape_debug();
            match nearest(&text.to_string(), names.iter().copied()) {
                Some(name) => format!("'{text}' is not a valid value: did you mean \"{name}\"?"),
                None => format!("'{text}' is not a valid value: write {write}"),
            }
        })
    };
    match text(value, read) {
        Err(Wrong::Type) => Err(Wrong::type_of(value, &write)),
        read => read,
    }
}

/// The number; `None` if it does not fit.
fn integer(number: &DeInteger) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The nearest of `known`; `None` if none is near.
pub fn nearest<'k>(written: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    const NEAR: f64 = 0.85;
    let written = written.to_lowercase();
    // Long texts are no typing mistakes, and the comparison's time is the product of the lengths.
    if written.len() > 64 {
        return None;
    }
    let near = known.map(|known| (strsim::jaro_winkler(&written, known), known));
    let nearest = near.max_by(|(likeness, _), (other, _)| likeness.total_cmp(other));
    nearest
        .filter(|(likeness, _)| *likeness > NEAR)
        .map(|(_, known)| known)
}
