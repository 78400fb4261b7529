//! The country and the autonomous system of an address.

use std::{
    collections::BTreeSet,
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::{Database, database, record};

/// The place of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The code of the country, as in CN.
    pub country: Option<String>,
    /// The number of the autonomous system.
    pub system: Option<u32>,
}

/// Databases that know places.
#[derive(Default)]
pub struct Places(Vec<Database>);

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} databases", self.0.len())
    }
}

impl Places {
    /// Reads databases into memory. Returns an error for each one that cannot be read.
    pub fn open(paths: &BTreeSet<PathBuf>) -> (Self, Vec<String>) {
        let (mut databases, mut errors) = (Vec::new(), Vec::new());
        for path in paths {
            match database(path) {
                Ok(database) => databases.push(database),
                Err(error) => errors.push(error),
            }
        }
        (Self(databases), errors)
    }

    /// The place of an address, by the first database that knows each part of it.
    pub fn find(&self, address: IpAddr) -> Place {
        let mut place = Place::default();
        for database in &self.0 {
            let found = database.lookup(address);
            // A record that is damaged says nothing.
            let record = found.and_then(|found| found.decode::<record::Value>());
            let Ok(Some(record)) = record else { continue };
            place.country = place.country.or_else(|| record.country());
            place.system = place.system.or_else(|| record.system());
        }
        place
    }
}

/// The databases that the lists of a configuration name. `folder` is the file's.
pub fn named(text: &str, folder: &Path) -> BTreeSet<PathBuf> {
    let file = toml::from_str::<toml::Table>(text).unwrap_or_default();
    let lists = file.get("lists").and_then(toml::Value::as_table);
    let lists = lists.into_iter().flat_map(toml::Table::values);
    let paths = lists.filter_map(|list| list.get("database")?.as_str());
    paths.map(|path| folder.join(path)).collect()
}
