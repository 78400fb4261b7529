//! The content of a configuration file.

use std::path::Path;

use super::list_table::{self, ListTable};
use crate::{
    Adaptive, Control, Direction, Key, Limit, Match, NewSources, Settings,
    adaptive::When,
    matches::Payload,
    names::Interfaces,
    new_sources::NewSourcesKeys,
    reader::{DeTable, DeValue, Keyed, Keys, Known, Mistakes, Section, Wrong},
};

crate::keys! {
    /// The content of a configuration file.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct File("", "") {
        /// Interfaces to attach to: `"eth0"`, or an array. Interfaces on the command line of `attach` replace them.
        interfaces: Vec<String> as Interfaces,
            r#"the name of an interface as in "eth0", or an array of them"#;
    }
    fields {
        /// The settings for these interfaces.
        settings: Settings;
    }
}

/// Keys at the top of the file with tables of their own.
const HEADERS: &[Known] = &[
    Known::header(
        "control",
        "[control]",
        "The header `[control]`: settings of the limits on control traffic. It needs `\"control\"`, `\"vrrp\"`, `\"ospf\"` or `\"bfd\"` in `exempt`.",
        "[control], and its keys below",
    ),
    Known::header(
        "lists",
        "[lists]",
        "The header `[lists]`. Each line below it is a list: its name and an array of prefixes. `allow` and `deny` are decided before any limit. Other names are tiers, for `source` and `unless` in `match`.",
        "[lists], and each list below it",
    ),
    Known::header(
        "limit",
        "[[limit]]",
        "The header `[[limit]]` begins a limit; at most 32. A packet passes only if every limit that matches it admits it.",
        "[[limit]] above each limit, and its keys below",
    ),
];

const TOP: &Keys = &Keys {
    groups: &[File::KNOWN, Settings::KNOWN, NewSourcesKeys::KNOWN, HEADERS],
    ..*Settings::KEYS
};

/// The lists, which have any name.
const LISTS: &Keys = &Keys {
    table: "[lists]",
    place: "under [lists]",
    groups: &[],
};

/// All tables, in the order of the manual page.
pub const TABLES: &[&Keys] = &[
    TOP,
    Limit::KEYS,
    Match::KEYS,
    Payload::KEYS,
    Adaptive::KEYS,
    When::KEYS,
    Control::KEYS,
    ListTable::KEYS,
];

/// Reads everything, and reports mistakes.
pub fn read(root: &DeTable, folder: &Path, mistakes: &mut Mistakes) -> File {
    let mut top = Section::new(root, TOP, 1, mistakes);
    let mut file = File::default();
    file.read_keys(&mut top);
    let settings = &mut file.settings;
    settings.read_keys(&mut top);
    settings.new_sources = new_sources(&mut top);
    settings.control = top.value("control").unwrap_or_default();
    if let Some(section) = top.inner("lists", LISTS) {
        list_table::read(section, folder, settings);
    }
    settings.limits = limits(&mut top, settings.direction);
    file
}

fn new_sources(top: &mut Section) -> Option<NewSources> {
    let mut keys = NewSourcesKeys::default();
    keys.read_keys(top);
    if keys.rate.is_none() && keys.burst.is_some() {
        top.refuse("new_sources_burst", "a burst needs a rate of new sources: write one as in new_sources = \"10k/s\", or leave the burst out");
    }
    if keys.rate.is_none() && keys.second_chance == Some(true) {
        top.refuse("second_chance", "a second chance needs a rate of new sources: write one as in new_sources = \"10k/s\", or remove this line");
    }
    keys.into()
}

fn limits(top: &mut Section, direction: Direction) -> Vec<Limit> {
    let Some(value) = top.table.get("limit") else {
        return Vec::new();
    };
    let items = match value.get_ref() {
        DeValue::Array(items) => items,
        DeValue::Table(_) => {
            top.refuse(
                "limit",
                "[limit] allows one limit only: write [[limit]] above each",
            );
            return Vec::new();
        }
        _ => return top.read("limit", |_| Err(Wrong::Type)).unwrap_or_default(),
    };
    let mut limits = Vec::new();
    for item in items {
        let line = top.mistakes.line(item.span().start);
        let DeValue::Table(table) = item.get_ref() else {
            top.refuse(
                "limit",
                "a limit is a table: write [[limit]] above each limit, and its keys below",
            );
            break;
        };
        let mut limit = unwritten(direction);
        limit.read_keys(&mut Section::new(table, Limit::KEYS, line, top.mistakes));
        limits.push(limit);
    }
    limits
}

/// A limit without keys, for packets in a direction.
pub fn unwritten(direction: Direction) -> Limit {
    Limit {
        key: Key::of_peers(direction),
        ..Limit::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_and_fixed_keys_are_marked() {
        let all = || TABLES.iter().flat_map(|keys| keys.all());
        let required = all().filter(|known| known.required);
        let required: Vec<_> = required.map(|known| known.key).collect();
        assert_eq!(required, ["name", "rate", "bytes", "when"]);
        let fixed = all().filter(|known| known.fixed);
        let fixed: Vec<_> = fixed.map(|known| known.key).collect();
        assert_eq!(fixed, ["mode", "direction", "max_sources", "max_bans"]);
    }

    /// The advice about a value of a wrong type, by the key or by its type. No key takes a date.
    fn advice<T: Keyed>(key: &str) -> String {
        let read = |root: &DeTable, mistakes: &mut Mistakes| {
            T::default().read_keys(&mut Section::new(root, T::KEYS, 1, mistakes));
        };
        let text = format!("{key} = 1979-05-27");
        let mistakes = crate::reader::parse(&text, TABLES, read, |(), _, _| ());
        let mut messages = mistakes.unwrap_err().into_iter();
        let message = messages.find_map(|mistake| {
            let why = mistake.message.strip_prefix(&format!("{key}: "))?;
            Some(why.split_once("write ")?.1.to_owned())
        });
        message.unwrap_or_default()
    }

    /// Reads a key with its example. Returns true if it is printed, unless it is the default.
    fn is_printed<T: Keyed>(key: &str, example: &str) -> bool {
        let text = format!("{key} = {example}");
        let read = |root: &DeTable, mistakes: &mut Mistakes| {
            let mut table = T::default();
            // Without the keys that are required.
            let mut section = Section::new(root, LISTS, 1, mistakes);
            table.read_keys(&mut section);
            table
        };
        let table = crate::reader::parse(&text, TABLES, read, |_, _, _| ());
        let table = table.unwrap_or_else(|mistakes| panic!("{text}: {mistakes:?}"));
        let default = T::default();
        let both = table
            .values(&default)
            .into_iter()
            .zip(default.values(&default));
        let mut both = both.filter(|(value, _)| value.known.key == key);
        both.all(|(value, default)| value.written.is_some() || value.words == default.words)
    }

    /// Advice that is not accepted would be no advice. A key that is not printed would be lost by `config show`.
    #[test]
    fn all_keys_have_advice_whose_examples_are_accepted_and_printed() {
        fn check<T: Keyed>() -> usize {
            for known in T::KNOWN {
                assert_ne!(advice::<T>(known.key), "", "{}", known.key);
            }
            let known = T::KNOWN.iter();
            let checked = known.filter(|known| !known.example().is_empty());
            let checked = checked.map(|known| {
                let (key, example) = (known.key, known.example());
                assert!(is_printed::<T>(key, example), "{key} = {example}");
            });
            checked.count()
        }
        let checked = [
            check::<File>(),
            check::<Settings>(),
            check::<NewSourcesKeys>(),
            check::<Limit>(),
            check::<Match>(),
            check::<Payload>(),
            check::<Adaptive>(),
            check::<When>(),
            check::<Control>(),
            check::<ListTable>(),
        ];
        assert!(checked.iter().sum::<usize>() > 35, "{checked:?}");
    }
}
