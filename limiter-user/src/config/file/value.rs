//! Single values: their types, and messages about wrong ones.

use std::str::FromStr;

use clap::ValueEnum;
use toml::{
    Spanned,
    de::{DeInteger, DeValue},
};

use super::super::Invalid;

/// A value with its position in the file.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// A mistake in a value, with its position.
#[derive(Debug)]
pub struct Fault {
    /// Offset into the file.
    pub at: usize,
    /// The mistake, and what to write.
    pub why: String,
}

/// A value, or all its faults.
pub type Read<T> = Result<T, Vec<Fault>>;

/// One fault with `value`.
pub fn fault<T>(value: &Value, why: impl Into<String>) -> Read<T> {
    let at = value.span().start;
    Err(vec![Fault {
        at,
        why: why.into(),
    }])
}

/// Reports a value of a wrong type.
pub fn wrong<T>(value: &Value, write: &str) -> Read<T> {
    let found = match value.get_ref() {
        DeValue::String(text) => format!("the text '{}'", text.escape_debug()),
        DeValue::Integer(number) => match integer(number) {
            Some(number) if number < 0 => format!("the negative number {number}"),
            _ => format!("the number {number}"),
        },
        DeValue::Float(number) => format!("the float {number}"),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(items) if items.is_empty() => "an empty array".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    fault(value, format!("{found} is not allowed here: write {write}"))
}

/// The number; `None` if it does not fit.
pub fn integer(number: &DeInteger) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Reads `true` or `false`.
pub fn boolean(value: &Value) -> Read<bool> {
    match value.get_ref() {
        DeValue::Boolean(on) => Ok(*on),
        _ => wrong(value, "true or false"),
    }
}

/// Reads a string by `read`.
pub fn text_with<T>(
    value: &Value,
    write: &str,
    read: impl Fn(&str) -> Result<T, Invalid>,
) -> Read<T> {
    match value.get_ref() {
        DeValue::String(text) => read(text).or_else(|why| fault(value, why.0)),
        _ => wrong(value, write),
    }
}

/// Reads a string or a number by `read`, which gets a number's digits.
pub fn number_with<T>(
    value: &Value,
    write: &str,
    read: impl Fn(&str) -> Result<T, Invalid>,
) -> Read<T> {
    match value.get_ref() {
        DeValue::Integer(number) => match integer(number) {
            None => fault(
                value,
                format!("the number {number} is far too large: write {write}"),
            ),
            Some(number) if number < 0 => wrong(value, write),
            Some(number) => read(&number.to_string()).or_else(|why| fault(value, why.0)),
        },
        _ => text_with(value, write, read),
    }
}

/// Reads a string as `T`.
pub fn text<T: FromStr<Err = Invalid>>(value: &Value, write: &str) -> Read<T> {
    text_with(value, write, str::parse)
}

/// Reads a string or a number as `T`.
pub fn number<T: FromStr<Err = Invalid>>(value: &Value, write: &str) -> Read<T> {
    number_with(value, write, str::parse)
}

/// Reads one of the variants of a type, by its name on the command line.
pub fn variant<T: ValueEnum>(value: &Value) -> Read<T> {
    let named = |one: &T| {
        let name = one.to_possible_value()?;
        Some((name.get_name().to_owned(), one.clone()))
    };
    let words: Vec<_> = T::value_variants().iter().filter_map(named).collect();
    word(value, &words)
}

/// Reads one of a few words.
pub fn word<T: Clone>(value: &Value, words: &[(impl AsRef<str>, T)]) -> Read<T> {
    let names: Vec<_> = words.iter().map(|(name, _)| name.as_ref()).collect();
    let write = format!("\"{}\"", names.join("\" or \""));
    text_with(value, &write, |text| {
        let found = words.iter().find(|(name, _)| name.as_ref() == text);
        found.map(|(_, meant)| meant.clone()).ok_or_else(|| {
            let text = text.escape_debug();
            Invalid(match nearest(&text.to_string(), names.iter().copied()) {
                Some(name) => format!("'{text}' is not a valid value: did you mean \"{name}\"?"),
                None => format!("'{text}' is not a valid value: write {write}"),
            })
        })
    })
}

/// Reads each value of an array, or a single value.
pub fn each<T>(value: &Value, one: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    let DeValue::Array(items) = value.get_ref() else {
        return one(value).map(|item| vec![item]);
    };
    let (mut read, mut faults) = (Vec::new(), Vec::new());
    for item in items {
        match one(item) {
            Ok(item) => read.push(item),
            Err(more) => faults.extend(more),
        }
    }
    if faults.is_empty() {
        Ok(read)
    } else {
        Err(faults)
    }
}

/// Reads each value of an array or a single value, at least one. An empty array would match everything.
pub fn some<T>(value: &Value, write: &str, one: impl Fn(&Value) -> Read<T>) -> Read<Vec<T>> {
    match value.get_ref() {
        DeValue::Array(items) if items.is_empty() => fault(
            value,
            format!("an empty array is not allowed: write {write}, or leave the key out"),
        ),
        _ => each(value, one),
    }
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
    let nearest = near.max_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest
        .filter(|(near, _)| *near > NEAR)
        .map(|(_, known)| known)
}
