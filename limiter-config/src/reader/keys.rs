//! The keys of a file's tables, and the nearest one to a misspelled key.

use super::value::nearest;

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The key as it is written.
    pub key: &'static str,
    /// The header that is written for the key; empty: the key has a value.
    pub header: &'static str,
    /// The type of the key's value, with an example. Empty: the type itself has advice.
    pub advice: &'static str,
    help: &'static str,
    /// True if the table must have the key.
    pub required: bool,
    /// True if the key is printed even with its default.
    pub shown: bool,
    /// True if a change takes a new `attach`.
    pub fixed: bool,
}

impl Known {
    /// A key that may be left out.
    pub const fn new(key: &'static str, help: &'static str, advice: &'static str) -> Self {
        Self {
            key,
            header: "",
            advice,
            help,
            required: false,
            shown: false,
            fixed: false,
        }
    }

    /// A key that is written as a header.
    pub const fn header(
        key: &'static str,
        header: &'static str,
        help: &'static str,
        advice: &'static str,
    ) -> Self {
        Self {
            header,
            ..Self::new(key, help, advice)
        }
    }

    /// The first example of the advice; empty if there is none.
    pub fn example(&self) -> &'static str {
        let (_, example) = self.advice.split_once("as in ").unwrap_or_default();
        let end = match example.chars().next() {
            Some('"') => example[1..].find('"').map(|end| end + 2),
            Some('{') => example.rfind('}').map(|end| end + 1),
            _ => example.find([',', ' ']),
        };
        &example[..end.unwrap_or(example.len())]
    }

    /// The meaning of the key. Text between backquotes is as in files.
    pub fn meaning(&self) -> String {
        // The lines of a doc comment begin with a space.
        let help = self.help.trim_start();
        let required = if self.required { " Required." } else { "" };
        format!("{help}{required}")
    }
}

/// The keys of a table.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The table's name in messages.
    pub table: &'static str,
    /// The place in the file for the table's keys.
    pub place: &'static str,
    /// The keys, in groups. Without any, the table takes every key.
    pub groups: &'static [&'static [Known]],
}

impl Keys {
    /// The keys in their order.
    pub fn all(&self) -> impl Iterator<Item = &'static Known> + use<> {
        self.groups.iter().copied().flatten()
    }

    /// The names of the keys.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.all().map(|known| known.key)
    }

    /// Returns true if the table may have this key.
    pub fn take(&self, key: &str) -> bool {
        self.groups.is_empty() || self.names().any(|name| name == key)
    }

    /// The key with this name.
    pub fn known(&self, key: &str) -> Option<&'static Known> {
        self.all().find(|known| known.key == key)
    }

    /// The type of a key's value, with an example.
    pub fn advice(&self, key: &str) -> &'static str {
        self.known(key).map_or("", |known| known.advice)
    }

    /// The message for a key that this table does not have. `tables` are all tables of the file.
    pub fn unknown(&self, key: &str, tables: &[&Self]) -> String {
        let problem = format!("'{}' is not a key of {}", key.escape_debug(), self.table);
        if let Some(place) = place_of(key, tables) {
            return format!("{problem}: write it {place}");
        }
        if let Some(known) = nearest(key, self.names()) {
            return format!("{problem}: did you mean '{known}'?");
        }
        if let Some(meant) = with_word(key, self) {
            return format!("{problem}: did you mean {meant}?");
        }
        if let Some((meant, keys)) = tables
            .iter()
            .find_map(|keys| Some((with_word(key, keys)?, keys)))
        {
            return format!("{problem}: did you mean {meant} {}?", keys.place);
        }
        let names: Vec<_> = self.names().collect();
        format!("{problem}: write one of {}", names.join(", "))
    }
}

/// The keys of a table that have `word` as one of their words, also in the plural: `destination_port` for `ports`.
fn with_word(word: &str, keys: &Keys) -> Option<String> {
    let singular = |word: &str| word.trim_end_matches('s').to_lowercase();
    let wanted = singular(word);
    let has =
        |name: &&str| name.contains('_') && name.split('_').any(|part| singular(part) == wanted);
    let names: Vec<_> = keys
        .names()
        .filter(has)
        .map(|name| format!("'{name}'"))
        .collect();
    (!wanted.is_empty() && !names.is_empty()).then(|| names.join(" or "))
}

/// The place where a key belongs.
pub fn place_of(key: &str, tables: &[&Keys]) -> Option<String> {
    tables.iter().find_map(|keys| {
        let known = keys.all().find(|known| known.key == key)?;
        Some(match known.header {
            "" => keys.place.to_owned(),
            header => format!("as {header}, a header of its own"),
        })
    })
}
