//! `[lists]`: prefixes, or files with prefixes, for this host or for its fleet.

use std::{collections::BTreeSet, path::Path};

use toml::de::{DeTable, DeValue};

use super::{
    super::{
        Lists, Scope,
        lists::{self, Prefixes},
        names, read_text,
    },
    keys,
    section::{Places, Section},
    value::{self, Value},
};

const PREFIX: &str = "a prefix as in \"192.0.2.0/24\"";
const ARRAY: &str = "an array of prefixes as in [\"192.0.2.0/24\"]";
const LIST: &str = "an array of prefixes as in [\"192.0.2.0/24\"], or { file = \"path\" }";
/// The most lines of one file that are reported as wrong.
const BAD_LINES: usize = 5;

/// All lists, as written.
#[derive(Debug, Default)]
pub struct Read {
    /// The prefixes on the lists.
    pub lists: Lists,
    /// Names of the lists that the fleet shares.
    pub of_fleet: BTreeSet<String>,
    /// The lines of the lists.
    pub places: Places,
}

/// Reads all lists. A list with mistakes is kept without them, so that limits may name it.
pub fn read(table: &DeTable, mut section: Section, folder: &Path) -> Read {
    let mut read = Lists::default();
    let mut of_fleet = BTreeSet::new();
    for key in table.keys() {
        let name = key.get_ref().as_ref();
        let is_name = names::name(name);
        if let Err(why) = &is_name {
            section.refuse(name, &why.0);
        }
        let (prefixes, scope) = list(name, &mut section, folder);
        if is_name.is_ok() && read.named_mut(name).is_none() {
            read.tiers.insert(name.to_owned(), Prefixes::new());
        }
        if let Some(list) = read.named_mut(name) {
            *list = prefixes;
            if scope == Scope::Fleet {
                of_fleet.insert(name.to_owned());
            }
        }
    }
    Read {
        lists: read,
        of_fleet,
        places: section.close(),
    }
}

/// The prefixes on a list, without wrong ones, and its scope.
fn list(name: &str, section: &mut Section, folder: &Path) -> (Prefixes, Scope) {
    let Some(value) = section.value(name) else {
        return Default::default();
    };
    let DeValue::Table(table) = value.get_ref() else {
        let prefixes = section.read(name, |value| written_out(name, value));
        return (prefixes.unwrap_or_default(), Scope::Host);
    };
    let line = section.line_of(name);
    let mut inner = Section::open(table, line, &keys::LIST, section.mistakes());
    let scope = inner.read("scope", value::variant).unwrap_or_default();
    let prefixes = inner.read("prefixes", |value| match value.get_ref() {
        DeValue::Array(_) => array(value),
        _ => value::wrong(value, ARRAY),
    });
    let path =
        |value: &Value| value::text_with(value, "the path of a file", |text| Ok(text.to_owned()));
    let path = if inner.has("prefixes") || inner.has("scope") {
        inner.read("file", path)
    } else {
        inner.require(&keys::LIST, ("file", "{ file = \"partners.txt\" }"), path)
    };
    let mut prefixes = prefixes.unwrap_or_default();
    match path.map(|path| from_file(&folder.join(path))) {
        Some(Ok(in_file)) => prefixes.extend(in_file),
        Some(Err(mistakes)) => {
            for why in mistakes {
                section.refuse(name, &why);
            }
        }
        None => {}
    }
    (prefixes, scope)
}

fn array(value: &Value) -> value::Read<Prefixes> {
    let one = |value: &Value| value::text_with(value, PREFIX, lists::prefix);
    value::each(value, one).map(|prefixes| prefixes.into_iter().collect())
}

fn written_out(name: &str, value: &Value) -> value::Read<Prefixes> {
    if let DeValue::Array(_) = value.get_ref() {
        return array(value);
    }
    // Keys for the top of the file end up here if they are below the header.
    match keys::place_of(name) {
        Some(place) => value::fault(
            value,
            format!("this is under [lists], where it would be a list: write it {place}"),
        ),
        None => value::wrong(value, LIST),
    }
}

fn from_file(path: &Path) -> Result<Prefixes, Vec<String>> {
    let shown = path.display();
    let text = read_text(path).map_err(|error| {
        vec![format!("cannot read {shown}: {error}: write the path of a text file, relative to the folder of this file")]
    })?;
    lists::read(&text).map_err(|errors| {
        let messages = errors.iter().take(BAD_LINES);
        let mut messages: Vec<_> = messages
            .map(|(line, why)| format!("{shown} line {line}: {why}"))
            .collect();
        if errors.len() > BAD_LINES {
            let more = errors.len() - BAD_LINES;
            messages.push(format!("{shown}: and {more} more: correct them too"));
        }
        messages
    })
}
