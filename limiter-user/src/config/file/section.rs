//! A table of the file. Its keys are read one by one, and mistakes are reported with key and line.

use std::str::FromStr;

use clap::ValueEnum;
use toml::de::{DeTable, DeValue};

use super::{
    super::Invalid,
    keys::Keys,
    mistakes::Mistakes,
    value::{Item, Value},
};
use crate::config::Part;

/// A table that is being read.
pub struct Section<'s, 't> {
    pub table: &'s DeTable<'t>,
    /// The part of the settings that the table belongs to.
    pub part: Part,
    /// The line of the table's header.
    pub line: usize,
    pub mistakes: &'s mut Mistakes,
}

impl<'s, 't> Section<'s, 't> {
    /// Reports keys that are not in `keys`.
    pub fn with_keys(mut self, keys: &Keys) -> Self {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !keys.names().any(|known| known == name) {
                let line = self.mistakes.line(key.span().start);
                self.mistakes.add(line, keys.unknown(name));
                self.is_wrong(name);
                if let Some(meant) = keys.nearest(name) {
                    self.is_wrong(meant);
                }
            }
        }
        self
    }

    /// A table within this one, which begins on `line`.
    pub fn within<'n>(&'n mut self, table: &'n DeTable<'t>, line: usize) -> Section<'n, 't> {
        Section {
            table,
            line,
            part: self.part,
            mistakes: self.mistakes,
        }
    }

    /// Returns true if `key` exists, possibly misspelled.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key) || self.mistakes.any_wrong(self.part, &[key])
    }

    /// The line of a key, or of the table if there is no such key.
    pub fn line_of(&self, key: &str) -> usize {
        let key = self.table.get_key_value(key);
        key.map_or(self.line, |(key, _)| self.mistakes.line(key.span().start))
    }

    /// The value of `key`, if it exists and is readable.
    pub fn value(&mut self, key: &str) -> Option<&'s Value<'t>> {
        let value = self.table.get(key)?;
        if self.mistakes.broken.contains(&self.line_of(key)) {
            self.is_wrong(key);
            return None;
        }
        Some(value)
    }

    /// The table at `key`. Reports another kind of value, with `write` as advice.
    pub fn table(&mut self, key: &str, write: &str) -> Option<&'s DeTable<'t>> {
        match self.value(key)?.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => self.read(key, |item| item.wrong(write)),
        }
    }

    pub fn read<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Item<'_, 't>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        read(&mut Item {
            value,
            key,
            part: self.part,
            mistakes: self.mistakes,
        })
    }

    /// Reads a string or a number as `T`.
    pub fn number<T: FromStr<Err = Invalid>>(&mut self, key: &str, write: &str) -> Option<T> {
        self.read(key, |item| item.number(write, str::parse))
    }

    /// Reads a string as `T`.
    pub fn text<T: FromStr<Err = Invalid>>(&mut self, key: &str, write: &str) -> Option<T> {
        self.read(key, |item| item.text(write, str::parse))
    }

    /// Reads one of the variants of `T`.
    pub fn variant<T: ValueEnum>(&mut self, key: &str) -> Option<T> {
        self.read(key, |item| item.variant())
    }

    /// Reads `true` or `false`.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        self.read(key, |item| match item.value.get_ref() {
            DeValue::Boolean(on) => Some(*on),
            _ => item.wrong("true or false"),
        })
    }

    /// Reports `key` as missing, unless it exists, possibly misspelled. `write` is an example of it.
    pub fn require(&mut self, key: &str, keys: &Keys, write: &str) {
        if !self.has(key) {
            let message = format!(
                "{} needs '{key}', which is missing: write it as in {write}",
                keys.table
            );
            self.mistakes.add(self.line, message);
            self.is_wrong(key);
        }
    }

    /// Reports that `key` is wrong.
    pub fn refuse(&mut self, key: &str, why: &str) {
        let line = self.line_of(key);
        self.mistakes.add(line, format!("{key}: {why}"));
        self.is_wrong(key);
    }

    fn is_wrong(&mut self, key: &str) {
        self.mistakes.is_wrong(self.part, key);
    }
}
