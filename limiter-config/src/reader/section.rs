//! A table of the file. Its keys are read one by one, and mistakes are reported with key and line.

use std::slice;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    keys::{Keys, Known},
    mistakes::Mistakes,
    value::{Read, Wrong, nearest},
    values::Setting,
};

/// A table of a file.
pub struct Section<'s, 't> {
    /// The table as it was parsed.
    pub table: &'s DeTable<'t>,
    keys: &'static Keys,
    /// Keys that are there under a misspelled name.
    meant: Vec<&'static str>,
    /// The line of the table's header.
    line: usize,
    /// The mistakes found so far.
    pub mistakes: &'s mut Mistakes,
}

impl<'s, 't> Section<'s, 't> {
    /// A table with some of `keys`. Reports other keys, and required ones that are missing.
    pub fn new(
        table: &'s DeTable<'t>,
        keys: &'static Keys,
        line: usize,
        mistakes: &'s mut Mistakes,
    ) -> Self {
        let mut section = Self {
            table,
            keys,
            meant: Vec::new(),
            line,
            mistakes,
        };
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !keys.take(name) {
                let line = section.mistakes.line(key.span().start);
                let message = keys.unknown(name, section.mistakes.tables);
                section.mistakes.add(line, message);
                section.meant.extend(nearest(name, keys.names()));
            }
        }
        let required = keys.all().filter(|known| known.required);
        required.for_each(|known| section.require(known.key));
        section
    }

    /// The table at `key`, with some of `keys`.
    pub fn inner(&mut self, key: &str, keys: &'static Keys) -> Option<Section<'_, 't>> {
        let DeValue::Table(table) = self.table.get(key)?.get_ref() else {
            return self.read(key, |_| Err(Wrong::Type));
        };
        let line = self.line_of(key);
        Some(Section::new(table, keys, line, self.mistakes))
    }

    /// Returns true if `key` exists, possibly misspelled.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key) || self.meant.contains(&key)
    }

    /// The line of a key, or of the table if there is no such key.
    pub fn line_of(&self, key: &str) -> usize {
        let key = self.table.get_key_value(key);
        key.map_or(self.line, |(key, _)| self.mistakes.line(key.span().start))
    }

    /// Reads the value of `key`. Reports a mistake in it.
    pub fn read<T>(&mut self, key: &str, read: impl Fn(&DeValue) -> Read<T>) -> Option<T> {
        let value = self.table.get(key)?;
        self.take(key, value, &read)
    }

    fn take<T>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue>,
        read: &impl Fn(&DeValue) -> Read<T>,
    ) -> Option<T> {
        let wrong = match read(value.get_ref()) {
            Err(Wrong::Type) => Wrong::type_of(value.get_ref(), self.keys.advice(key)),
            Err(wrong) => wrong,
            Ok(value) => return Some(value),
        };
        if let Wrong::Value(why) = wrong {
            let line = self.mistakes.line(value.span().start);
            self.mistakes.add(line, format!("{key}: {why}"));
        }
        None
    }

    /// Reads each value of an array, or of one text with commas between them, or a single value.
    pub fn each<T>(&mut self, key: &str, read: impl Fn(&DeValue) -> Read<T>) -> Option<Vec<T>> {
        let value = self.table.get(key)?;
        let parts: Vec<_>;
        let values = match value.get_ref() {
            DeValue::Array(values) => &values[..],
            DeValue::String(text) if text.contains(',') => {
                let part = |part: &str| DeValue::String(part.trim().to_owned().into());
                let spanned = |text| Spanned::new(value.span(), part(text));
                parts = text.split(',').map(spanned).collect();
                &parts
            }
            _ => slice::from_ref(value),
        };
        let read = values.iter().map(|value| self.take(key, value, &read));
        // Reads all of them before one counts: each reports its mistake.
        read.collect::<Vec<_>>().into_iter().collect()
    }

    /// The value of `key`. `None` if there is none, or it has a mistake, which is reported.
    pub fn value<T: Setting>(&mut self, key: &str) -> Option<T> {
        T::read(self, key)
    }

    /// Reports `key` as missing, unless it exists, possibly misspelled.
    pub fn require(&mut self, key: &str) {
        if !self.has(key) {
            let table = self.keys.table;
            let example = self.keys.known(key).map_or("", Known::example);
            let message = format!(
                "{table} needs '{key}', which is missing: write it as in {key} = {example}"
            );
            self.mistakes.add(self.line, message);
        }
    }

    /// Reports that `key` is wrong.
    pub fn refuse(&mut self, key: &str, why: &str) {
        let line = self.line_of(key);
        self.mistakes.add(line, format!("{key}: {why}"));
    }

    /// Reports that `key` has an empty array.
    pub fn refuse_empty(&mut self, key: &str) {
        let advice = self.keys.advice(key);
        let why = format!("an empty array is not allowed: write {advice}, or leave the key out");
        self.refuse(key, &why);
    }
}
