//! The keys of the file's tables, and the nearest one to a misspelled key.

use super::value::nearest;

/// The tables: a line with the name and the place, then one line for each key. In parentheses stands what to write if
/// a value has the wrong type. The meaning follows; text between backquotes is as in files.
const TABLES: &str = include_str!("keys.txt");

/// The keys of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys {
    /// The table's name in messages.
    pub table: &'static str,
    /// The place in the file for the table's keys.
    pub place: &'static str,
    known: &'static str,
}

/// All tables, in the order of the manual page.
pub fn tables() -> impl Iterator<Item = Keys> {
    TABLES.split("\n\n").filter_map(|text| {
        let (heading, known) = text.split_once('\n')?;
        let (table, place) = heading.split_once(" | ")?;
        Some(Keys {
            table,
            place,
            known,
        })
    })
}

impl Keys {
    /// The keys of the table with this name. A table with another name takes any key.
    pub fn of(table: &str) -> Self {
        let mut tables = tables();
        tables.find(|keys| keys.table == table).unwrap_or_default()
    }

    /// The message for a key that this table does not have.
    pub fn unknown(self, key: &str) -> String {
        let problem = format!("'{}' is not a key of {}", key.escape_debug(), self.table);
        if let Some(place) = place_of(key) {
            return format!("{problem}: write it {place}");
        }
        match nearest(key, self.names()) {
            Some(known) => format!("{problem}: did you mean '{known}'?"),
            None => {
                let names: Vec<_> = self.names().collect();
                format!("{problem}: write one of {}", names.join(", "))
            }
        }
    }

    /// Returns true if the table may have this key.
    pub fn take(self, key: &str) -> bool {
        self.known.is_empty() || self.names().any(|name| name == key)
    }

    /// The keys with their meanings, which limiter.toml(5) prints.
    pub fn meanings(self) -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
        self.lines().map(|(name, _, meaning)| (name, meaning))
    }

    /// The names of the keys.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.lines().map(|(name, ..)| name)
    }

    /// The names of the keys that the table must have.
    pub fn required(self) -> impl Iterator<Item = &'static str> {
        let required = |(name, meaning): (_, &str)| meaning.contains(" Required").then_some(name);
        self.meanings().filter_map(required)
    }

    /// The type of a key's value, with an example.
    pub fn advice(self, key: &str) -> &'static str {
        let line = self.lines().find(|(name, ..)| *name == key);
        line.map_or("", |(_, advice, _)| advice)
    }

    fn lines(self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> + Clone {
        self.known.lines().filter_map(|line| {
            let (key, meaning) = line.split_once(": ")?;
            let (name, advice) = key.split_once(" (").unwrap_or((key, ")"));
            Some((name, advice.strip_suffix(')')?, meaning))
        })
    }
}

/// The place where a key belongs.
pub fn place_of(key: &str) -> Option<String> {
    tables().find_map(|keys| {
        let (_, meaning) = keys.meanings().find(|(name, _)| *name == key)?;
        let header = meaning.strip_prefix("The header `");
        Some(match header.and_then(|header| header.split_once('`')) {
            Some((header, _)) => format!("as {header}, a header of its own"),
            None => keys.place.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The readers of variants, of `true` or `false`, and of prefixes have their own advice.
    #[test]
    fn all_other_keys_have_advice() {
        let without = |keys: Keys| {
            keys.names()
                .filter(move |name| keys.advice(name).is_empty())
        };
        let names: Vec<_> = tables().flat_map(without).collect();
        let expected = "mode direction second_chance exempt shadow malformed algorithm proof shadow scope established fragments prefixes scope";
        assert_eq!(names.join(" "), expected);
        let required: Vec<_> = tables().flat_map(Keys::required).collect();
        assert_eq!(required, ["name", "rate", "bytes", "when"]);
    }
}
