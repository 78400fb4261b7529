//! `[lists]`: prefixes that are written out, or files of them.

use std::{fs, path::Path};

use toml::de::{DeTable, DeValue};

use super::{
    super::{
        Lists,
        lists::{self, Prefixes},
        settings,
    },
    keys,
    section::Section,
    value::{self, Read, Value},
};

const PREFIX: &str = "a prefix as in \"192.0.2.0/24\"";
const LIST: &str = "an array of prefixes as in [\"192.0.2.0/24\"], or { file = \"path\" }";
/// Of a file that is full of mistakes, so many are told.
const BAD_LINES: usize = 5;

/// Reads all lists. One that is wrong is there without what is wrong, so that limits may name it.
pub fn read(table: &DeTable, mut section: Section, folder: &Path) -> Lists {
    let mut read = Lists::default();
    for key in table.keys() {
        let name = key.get_ref().as_ref();
        let is_name = settings::name(name);
        if let Err(why) = &is_name {
            section.refuse(name, &why.0);
        }
        let prefixes = list(name, &mut section, folder).unwrap_or_default();
        if is_name.is_ok() && read.named_mut(name).is_none() {
            read.tiers.insert(name.to_owned(), Prefixes::new());
        }
        if let Some(list) = read.named_mut(name) {
            *list = prefixes;
        }
    }
    read
}

fn list(name: &str, section: &mut Section, folder: &Path) -> Option<Prefixes> {
    let value = section.value(name)?;
    let DeValue::Table(table) = value.get_ref() else {
        return section.read(name, |value| written_out(name, value));
    };
    let line = section.line_of(name);
    let mut inner = Section::open(table, line, &keys::LIST, section.mistakes());
    let path = inner.require(
        &keys::LIST,
        ("file", "{ file = \"partners.txt\" }"),
        |value| value::text_with(value, "the path of a file", |text| Ok(text.to_owned())),
    );
    match from_file(&folder.join(path?)) {
        Ok(prefixes) => Some(prefixes),
        Err(mistakes) => {
            for why in mistakes {
                section.refuse(name, &why);
            }
            None
        }
    }
}

fn written_out(name: &str, value: &Value) -> Read<Prefixes> {
    if let DeValue::Array(_) = value.get_ref() {
        let one = |value: &Value| value::text_with(value, PREFIX, lists::prefix);
        return value::each(value, one).map(|prefixes| prefixes.into_iter().collect());
    }
    // Keys that were meant for the file as a whole end up here where they are below the header.
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
    let text = fs::read_to_string(path).map_err(|error| {
        vec![format!("cannot read {shown}: {error}: write the path of a text file, from the folder of this file")]
    })?;
    lists::read(&text).map_err(|errors| {
        let told = errors.iter().take(BAD_LINES);
        let mut told: Vec<_> = told
            .map(|(line, why)| format!("{shown} line {line}: {why}"))
            .collect();
        if errors.len() > BAD_LINES {
            let more = errors.len() - BAD_LINES;
            told.push(format!("{shown}: and {more} more: correct them too"));
        }
        told
    })
}
