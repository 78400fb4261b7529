//! A table of the file. Its keys are read one by one, and mistakes are reported with key and line.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::{
    keys::Keys,
    mistakes::Mistakes,
    value::{self, Read, Value},
};

/// A table that is being read.
pub struct Section<'s, 't> {
    table: &'s DeTable<'t>,
    mistakes: &'s mut Mistakes,
    places: Places,
}

/// The lines of a table's keys, and the wrong keys.
#[derive(Debug, Default)]
pub struct Places {
    /// The line of the table itself.
    pub line: usize,
    lines: BTreeMap<String, usize>,
    wrong: BTreeSet<String>,
}

impl Places {
    /// Returns true if one of `keys` has a wrong value.
    pub fn any_wrong(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.wrong.contains(*key))
    }

    /// The line of the first of `keys` that exists, or of the table.
    pub fn line_of(&self, keys: &[&str]) -> usize {
        let line = keys.iter().find_map(|key| self.lines.get(*key));
        line.copied().unwrap_or(self.line)
    }

    /// Adds the places of a table within this one.
    pub fn take_in(&mut self, inner: Self) {
        self.lines.extend(inner.lines);
        self.wrong.extend(inner.wrong);
    }

    /// Marks the value of `key` as wrong.
    pub fn is_wrong(&mut self, key: &str) {
        self.wrong.insert(key.to_owned());
    }
}

impl<'s, 't> Section<'s, 't> {
    /// Opens a table that begins on `line`, and reports unknown keys.
    pub fn open(
        table: &'s DeTable<'t>,
        line: usize,
        keys: &Keys,
        mistakes: &'s mut Mistakes,
    ) -> Self {
        let mut section = Self::with_any_key(table, line, mistakes);
        for key in table.keys() {
            if !keys.names().any(|name| name == key.get_ref()) {
                let line = section.mistakes.line(key.span().start);
                section.mistakes.add(line, keys.unknown(key.get_ref()));
                section.places.is_wrong(key.get_ref());
                if let Some(meant) = keys.nearest(key.get_ref()) {
                    section.places.is_wrong(meant);
                }
            }
        }
        section
    }

    /// Opens a table with names as keys.
    pub fn with_any_key(table: &'s DeTable<'t>, line: usize, mistakes: &'s mut Mistakes) -> Self {
        let line_of = |offset: usize| mistakes.line(offset);
        let lines = table.keys().map(|key| {
            (
                key.get_ref().clone().into_owned(),
                line_of(key.span().start),
            )
        });
        let places = Places {
            line,
            lines: lines.collect(),
            wrong: BTreeSet::new(),
        };
        Self {
            table,
            mistakes,
            places,
        }
    }

    /// Returns true if `key` exists, possibly misspelled.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key) || self.places.any_wrong(&[key])
    }

    /// The value of `key`, if it exists and is readable.
    pub fn value(&mut self, key: &str) -> Option<&'s Value<'t>> {
        let (written, value) = self.table.get_key_value(key)?;
        let line = self.mistakes.line(written.span().start);
        if self.mistakes.is_broken(line) {
            self.places.is_wrong(key);
            return None;
        }
        Some(value)
    }

    /// The table at `key`. Reports another kind of value, with `write` as advice.
    pub fn table(&mut self, key: &str, write: &str) -> Option<&'s DeTable<'t>> {
        if let DeValue::Table(table) = self.value(key)?.get_ref() {
            return Some(table);
        }
        self.read(key, |value| value::wrong(value, write))
    }

    /// Reads the value of `key`, and reports mistakes in it.
    pub fn read<T>(&mut self, key: &str, read: impl FnOnce(&Value<'t>) -> Read<T>) -> Option<T> {
        let value = self.value(key)?;
        match read(value) {
            Ok(value) => Some(value),
            Err(faults) => {
                for fault in faults {
                    let line = self.mistakes.line(fault.at);
                    self.mistakes.add(line, format!("{key}: {}", fault.why));
                }
                self.places.is_wrong(key);
                None
            }
        }
    }

    /// Reads the value of a required key. `write` is an example of it.
    pub fn require<T>(
        &mut self,
        keys: &Keys,
        (key, write): (&str, &str),
        read: impl FnOnce(&Value<'t>) -> Read<T>,
    ) -> Option<T> {
        if !self.table.contains_key(key) {
            if !self.has(key) {
                let message = format!(
                    "{} needs '{key}', which is missing: write it as in {write}",
                    keys.table
                );
                self.mistakes.add(self.places.line, message);
            }
            self.places.is_wrong(key);
        }
        self.read(key, read)
    }

    /// Reports that `key` is wrong.
    pub fn refuse(&mut self, key: &str, why: &str) {
        let line = self.places.line_of(&[key]);
        self.mistakes.add(line, format!("{key}: {why}"));
        self.places.is_wrong(key);
    }

    /// The line of a value's key.
    pub fn line_of(&self, key: &str) -> usize {
        self.places.line_of(&[key])
    }

    /// The mistakes, for nested readers.
    pub fn mistakes(&mut self) -> &mut Mistakes {
        self.mistakes
    }

    /// The places, for nested readers.
    pub fn places(&mut self) -> &mut Places {
        &mut self.places
    }

    /// Ends the reading of this table, and returns its places.
    pub fn close(self) -> Places {
        self.places
    }
}
