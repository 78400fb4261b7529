//! `[lists]`: prefixes, or files with prefixes, for this host or for its fleet.

use std::path::{Path, PathBuf};

use crate::{
    Prefixes, Scope, Settings,
    lists::{self, BANS, ListFormat},
    places::{self, Country, System},
    reader::{DeValue, Keyed, Section, Setting, Wrong, array, place_of, quoted, text},
};

crate::keys! {
    /// A list of the file that is written as a table.
    #[derive(Clone, Debug)]
    pub struct ListTable("a list", "in a list under [lists], as in { file = \"path\" }") {
        /// Path of a file with a list, relative to the folder of the configuration file: one prefix per line, with `#`
        /// before comments, or another of the formats that feeds read.
        file: Option<PathBuf>, r#"a path as in "partners.txt""#;
        /// Format of the file: `"auto"` (default: it is found by the file itself), `"plain"`, `"json"` and others, as feeds have
        /// it.
        format: Option<ListFormat>, r#"a format as in "json""#;
        /// Columns, JSON paths or sets of the file that have the addresses, as in `"ip"`, or an array of them. Default:
        /// they are found by the file itself.
        field: Vec<String>, r#"a name as in "ip", or an array of names"#;
        /// Countries whose prefixes are on the list, as in `["CN", "KP"]`, by `database`. They are read at `attach` and
        /// `reload`.
        geoip: Vec<Country>, r#"a country as in "CN", or an array of them"#;
        /// Autonomous systems whose prefixes are on the list, as in `[64500]` or `["AS64500"]`, by
        /// `database`.
        asn: Vec<System>, "a number of an autonomous system as in 64500, or an array of them";
        /// Path of a database in MaxMind's format (`.mmdb`), of any publisher: of countries or cities for `geoip`, of
        /// autonomous systems for `asn`.
        database: Option<PathBuf>, r#"a path as in "GeoLite2-Country.mmdb""#;
        /// The prefixes, as an array.
        prefixes: Prefixes as PrefixArray;
        /// `"host"` (default), or `"fleet"`: all hosts of the fleet share the list.
        scope: Scope;
    }
}

const PREFIX: &str = "a prefix as in \"192.0.2.0/24\"";
const ARRAY: &str = "an array of prefixes as in [\"192.0.2.0/24\"]";
const LIST: &str = "an array of prefixes as in [\"192.0.2.0/24\"], or { file = \"path\" }";

/// Reads all lists into `settings`. A list with mistakes is kept without them, so that limits may name it.
pub fn read(mut section: Section, folder: &Path, settings: &mut Settings) {
    for key in section.table.keys() {
        let name = key.get_ref().as_ref();
        let (prefixes, scope) = list(name, &mut section, folder);
        match settings.lists.named_mut(name) {
            Some(list) => *list = prefixes,
            None if name == BANS => {
                if scope == Scope::Host || !prefixes.is_empty() {
                    section.refuse(name, "no file has bans (`limiter ban`): write bans = { scope = \"fleet\" } to share them, or leave it out");
                }
            }
            None => {
                settings.lists.tiers.insert(name.to_owned(), prefixes);
            }
        }
        if scope == Scope::Fleet {
            settings.fleet_lists.insert(name.to_owned());
        }
    }
}

/// The prefixes on a list, without wrong ones, and its scope.
fn list(name: &str, section: &mut Section, folder: &Path) -> (Prefixes, Scope) {
    let Some(value) = section.table.get(name) else {
        return Default::default();
    };
    if !value.get_ref().is_table() {
        // Keys for the top of the file end up here if they are below the header.
        let place = place_of(name, section.mistakes.tables).filter(|_| !value.get_ref().is_array());
        if let Some(place) = place {
            let why = format!("this is under [lists], where it would be a list: write it {place}");
            section.refuse(name, &why);
            return Default::default();
        }
        let prefixes = read_array(section, name, LIST);
        return (prefixes.unwrap_or_default(), Scope::Host);
    }
    let Some(mut inner) = section.inner(name, ListTable::KEYS) else {
        return Default::default();
    };
    let mut list = ListTable::default();
    list.read_keys(&mut inner);
    let mut prefixes = list.prefixes;
    let has_places = inner.has("geoip") || inner.has("asn");
    match &list.database {
        Some(database) if has_places => {
            match places::prefixes(&folder.join(database), &list.geoip, &list.asn) {
                Ok(found) => prefixes.join(found),
                Err(why) => inner.refuse("database", &why),
            }
        }
        Some(_) => inner.require("geoip"),
        None if has_places => inner.require("database"),
        None if inner.has("prefixes") || inner.has("scope") => {}
        None => inner.require("file"),
    }
    let (mut is_mistaken, has_file) = (false, inner.has("file"));
    for (key, is_read) in [
        ("format", list.format.is_some()),
        ("field", !list.field.is_empty()),
    ] {
        is_mistaken |= inner.has(key) && !is_read;
        if is_read && !has_file {
            inner.refuse(key, "this is for the list of a file, and there is none: write file = \"path\", or remove this key");
        }
    }
    // In another format, the file would have mistakes that follow from this one.
    let path = list.file.filter(|_| !is_mistaken);
    let in_file = path.map(|path| {
        let format = list.format.and_then(Into::into);
        lists::from_file(&folder.join(path), format, list.field)
    });
    match in_file {
        Some(Ok(in_file)) => prefixes.join(in_file),
        Some(Err(mistakes)) => mistakes.iter().for_each(|why| section.refuse(name, why)),
        None => {}
    }
    (prefixes, list.scope)
}

/// Prefixes as an array.
#[derive(Clone, Debug)]
pub struct PrefixArray(Prefixes);

crate::read_as!(PrefixArray: Prefixes);

impl Setting for PrefixArray {
    fn read(section: &mut Section, key: &str) -> Option<Self> {
        read_array(section, key, ARRAY).map(Self)
    }

    fn written(&self) -> Option<String> {
        Some(array(
            self.0.iter().map(|prefix| quoted(lists::show(&prefix))),
        ))
    }

    fn words(&self) -> String {
        format!("{} prefixes", self.0.len())
    }
}

/// Reads an array of prefixes, or reports the mistakes in it.
fn read_array(section: &mut Section, key: &str, write: &str) -> Option<Prefixes> {
    let is_array = |value: &DeValue| match value.is_array() {
        true => Ok(()),
        false => Err(Wrong::type_of(value, write)),
    };
    section.read(key, is_array)?;
    let prefixes = section.each(key, |value| match text(value, lists::prefix) {
        Err(Wrong::Type) => Err(Wrong::type_of(value, PREFIX)),
        read => read,
    });
    Some(prefixes?.into_iter().collect())
}
