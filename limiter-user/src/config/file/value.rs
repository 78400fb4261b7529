//! Single values: their types, and messages about wrong ones.

use std::fmt::Display;

use clap::ValueEnum;
use toml::{
    Spanned,
    de::{DeInteger, DeValue},
};

use super::mistakes::Mistakes;
use crate::config::Part;

/// A value with its position in the file.
pub type Value<'t> = Spanned<DeValue<'t>>;

/// A value that is being read. Its readers report mistakes in it, and return `None` then.
pub struct Item<'i, 't> {
    pub value: &'i Value<'t>,
    pub key: &'i str,
    /// The value to write instead of one of another type.
    pub write: &'i str,
    pub part: Part,
    pub mistakes: &'i mut Mistakes,
}

impl<'i, 't> Item<'i, 't> {
    /// Reports a mistake in this value.
    pub fn refuse<T>(&mut self, why: &str) -> Option<T> {
        let line = self.mistakes.line(self.value.span().start);
        self.mistakes.add(line, format!("{}: {why}", self.key));
        self.mistakes.is_wrong(self.part, self.key);
        None
    }

    /// Reports a value of a wrong type.
    pub fn wrong<T>(&mut self) -> Option<T> {
        let found = match self.value.get_ref() {
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
        self.refuse(&format!(
            "{found} is not allowed here: write {}",
            self.write
        ))
    }

    fn valid<T>(&mut self, read: Result<T, impl Display>) -> Option<T> {
        read.or_else(|why| self.refuse(&why.to_string()).ok_or(()))
            .ok()
    }

    /// Reads a string by `read`.
    pub fn text<T, E: Display>(&mut self, read: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        match self.value.get_ref() {
            DeValue::String(text) => self.valid(read(text)),
            _ => self.wrong(),
        }
    }

    /// Reads a string or a number by `read`, which gets a number's digits.
    pub fn number<T, E: Display>(&mut self, read: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let DeValue::Integer(number) = self.value.get_ref() else {
            return self.text(read);
        };
        match integer(number) {
            Some(number) if number < 0 => self.wrong(),
            Some(number) => self.valid(read(&number.to_string())),
            None => self.refuse(&format!(
                "the number {number} is far too large: write {}",
                self.write
            )),
        }
    }

    /// Reads one of the variants of a type, by its name on the command line.
    pub fn variant<T: ValueEnum>(&mut self) -> Option<T> {
        let values = T::value_variants().iter();
        let names: Vec<_> = values.filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<_> = names.iter().map(|name| name.get_name()).collect();
        let write = format!("\"{}\"", names.join("\" or \""));
        let mut item = Item {
            write: &write,
            ..self.at(self.value)
        };
        item.text(|text| {
            T::from_str(text, false).map_err(|_| {
                let text = text.escape_debug();
                match nearest(&text.to_string(), names.iter().copied()) {
                    Some(name) => {
                        format!("'{text}' is not a valid value: did you mean \"{name}\"?")
                    }
                    None => format!("'{text}' is not a valid value: write {write}"),
                }
            })
        })
    }

    /// Reads each value of an array, or a single value.
    pub fn each<T>(&mut self, one: impl Fn(&mut Item<'_, 't>) -> Option<T>) -> Option<Vec<T>> {
        let DeValue::Array(items) = self.value.get_ref() else {
            return one(self).map(|item| vec![item]);
        };
        let read = items.iter().map(|value| one(&mut self.at(value)));
        // Reads all of them before one counts: each reports its mistake.
        read.collect::<Vec<_>>().into_iter().collect()
    }

    /// Reads each value of an array or a single value, at least one. An empty array would match everything.
    pub fn some<T>(&mut self, one: impl Fn(&mut Item<'_, 't>) -> Option<T>) -> Option<Vec<T>> {
        match self.value.get_ref() {
            DeValue::Array(items) if items.is_empty() => self.refuse(&format!(
                "an empty array is not allowed: write {}, or leave the key out",
                self.write
            )),
            _ => self.each(one),
        }
    }

    /// Another value of the same key.
    fn at<'a>(&'a mut self, value: &'a Value<'t>) -> Item<'a, 't> {
        Item {
            value,
            key: self.key,
            write: self.write,
            part: self.part,
            mistakes: self.mistakes,
        }
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
    let nearest = near.max_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest
        .filter(|(near, _)| *near > NEAR)
        .map(|(_, known)| known)
}
