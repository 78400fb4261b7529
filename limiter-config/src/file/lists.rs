//! `[lists]`: prefixes, or files with prefixes, for this host or for its fleet.

use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::{
    super::{Scope, Settings, lists, places},
    keys::place_of,
    section::Section,
    value::{Wrong, text},
};
use crate::{Prefixes, lists::BANS};

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
        let place = place_of(name).filter(|_| !value.get_ref().is_array());
        if let Some(place) = place {
            let why = format!("this is under [lists], where it would be a list: write it {place}");
            section.refuse(name, &why);
            return Default::default();
        }
        return (array(section, name, LIST), Scope::Host);
    }
    let Some(mut inner) = section.inner(name, "a list") else {
        return Default::default();
    };
    let scope = inner.variant("scope");
    let mut prefixes = array(&mut inner, "prefixes", ARRAY);
    let database = inner.text::<PathBuf>("database");
    let (countries, systems) = (inner.several("geoip"), inner.several("asn"));
    if let Some(database) = &database {
        if inner.has("geoip") || inner.has("asn") {
            match places::prefixes(&folder.join(database), &countries, &systems) {
                Ok(found) => prefixes.extend(found),
                Err(why) => inner.refuse("database", &why),
            }
        } else {
            inner.require("geoip");
        }
    } else if inner.has("geoip") || inner.has("asn") {
        inner.require("database");
    } else if !inner.has("prefixes") && !inner.has("scope") {
        inner.require("file");
    }
    let path = inner.text::<PathBuf>("file");
    match path.map(|path| lists::from_file(&folder.join(path))) {
        Some(Ok(in_file)) => prefixes.extend(in_file),
        Some(Err(mistakes)) => mistakes.iter().for_each(|why| section.refuse(name, why)),
        None => {}
    }
    (prefixes, scope)
}

/// Reads an array of prefixes, or reports what is wrong in it.
fn array(section: &mut Section, key: &str, write: &str) -> Prefixes {
    let is_array = |value: &DeValue| match value.is_array() {
        true => Ok(()),
        false => Err(Wrong::type_of(value, write)),
    };
    let prefixes = section.read(key, is_array).and_then(|()| {
        section.each(key, |value| match text(value, lists::prefix) {
            Err(Wrong::Type) => Err(Wrong::type_of(value, PREFIX)),
            read => read,
        })
    });
    prefixes.into_iter().flatten().collect()
}
