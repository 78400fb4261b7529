//! The prefixes of countries and autonomous systems, from a database in MaxMind's format.

mod lookup;
mod record;

pub use lookup::{Place, Places, named};

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::Path,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use limiter_lists::Packed;
use maxminddb::{MaxMindDbError, Reader, WithinOptions};
use serde::de::IgnoredAny;

use super::{Invalid, Prefixes, Text, as_text, invalid};
use crate::files;

/// The longest database in bytes.
const LONGEST: u64 = 1 << 30;

/// The first bytes of a file that gzip has packed.
const PACKED: [u8; 2] = [0x1f, 0x8b];

/// A text at the end of databases of MaxMind's earlier format: "GEO-106FREE 20180327 Build 1 Copyright …".
const LEGACY: &[u8] = b"GEO-";
/// Bytes at the end of a database that have it.
const LEGACY_END: usize = 1_000;

/// Bytes that show whether a file is text.
const TEXT: usize = 4_096;

/// The most networks of a database, as a multiple of its nodes. A search tree has one more than it has nodes. Databases
/// of both families lead to those of IPv4 from a few prefixes of IPv6 too, as from 2002::/16.
const NETWORKS_PER_NODE: usize = 8;

/// Codes that people write for a country, and that of ISO 3166-1.
const OTHER_CODES: [(&str, &str); 2] = [("UK", "GB"), ("EL", "GR")];

/// A country, as in CN (ISO 3166-1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Country(String);

impl Text for Country {
    fn read(text: &str) -> Result<Self, Invalid> {
        let code = text.to_ascii_uppercase();
        let others = OTHER_CODES.iter();
        let other = others.copied().find(|(other, _)| *other == code);
        let instead = match other {
            Some((_, instead)) => instead,
            None if !record::is_code(text) => {
                return Err(invalid!(
                    "'{}' is not a country: write two capital letters as in \"CN\"",
                    text.escape_debug()
                ));
            }
            None => &code,
        };
        if instead == text {
            return Ok(Self(code));
        }
        Err(invalid!(
            "'{text}' is not the code of a country in ISO 3166-1: write \"{instead}\""
        ))
    }

    fn shown(&self) -> String {
        self.0.clone()
    }
}

/// The number of an autonomous system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct System(u32);

impl Text for System {
    const IS_NUMBER: bool = true;

    fn read(text: &str) -> Result<Self, Invalid> {
        record::system(text).map(Self).ok_or_else(|| {
            invalid!(
                "'{}' is not the number of an autonomous system: write one as in 64500 or \"AS64500\"",
                text.escape_debug()
            )
        })
    }

    fn shown(&self) -> String {
        self.0.to_string()
    }
}

as_text!(Country, System);

/// Reads the prefixes of countries and autonomous systems: the fewest that have all their addresses.
/// Fails if the database cannot be read, or has no prefixes of one of them.
pub fn prefixes(
    path: &Path,
    countries: &[Country],
    systems: &[System],
) -> Result<Prefixes, String> {
    let shown = path.display();
    let reader = database(path)?;
    let damaged = |error: MaxMindDbError| format!("{shown} is damaged ({error}): get it again");
    bounded(&reader).map_err(damaged)?;
    let mut search = Search::new(countries, systems);
    search.read(&reader).map_err(damaged)?;
    match search.missing() {
        Some((missing, has_others)) => {
            let fields = match has_others {
                true => ": leave it out, or get another database".to_owned(),
                false => fields(&reader),
            };
            Err(format!("{shown} has {missing}{fields}"))
        }
        None => {
            let (ipv4, ipv6) = (&search.ipv4, &search.ipv6);
            let fewest = (Ipv4Net::aggregate(ipv4), Ipv6Net::aggregate(ipv6));
            Ok(Prefixes::of_families(fewest.0, fewest.1))
        }
    }
}

/// Files that databases come in or as, beside that of the format which is read.
fn no_database(bytes: &[u8]) -> Option<String> {
    let end = &bytes[bytes.len().saturating_sub(LEGACY_END)..];
    let is_legacy = end.windows(LEGACY.len()).any(|window| window == LEGACY);
    let is_text = bytes.len() > 8 && !bytes.iter().take(TEXT).any(|byte| *byte < b'\t');
    let is_archive = bytes.get(257..262) == Some(b"ustar");
    Some(match Packed::by(bytes) {
        Some(packed) => format!("{packed}: unpack it, and name the file of the type .mmdb in it"),
        None if is_archive => {
            "a tar archive: unpack it, and name the file of the type .mmdb in it".to_owned()
        }
        None if is_legacy => "a database of the format that ended in 2022 (GeoIP legacy, .dat), which is not read: get one of the type .mmdb, as GeoLite2 is".to_owned(),
        None if is_text => "text, as databases in CSV are, and not read: get the database as a file of the type .mmdb".to_owned(),
        None => return None,
    })
}

/// A database in memory.
type Database = Reader<Vec<u8>>;

/// Reads a database into memory.
fn database(path: &Path) -> Result<Database, String> {
    let shown = path.display();
    let bytes = files::read(path, LONGEST).map_err(|error| {
        format!("{shown} cannot be read ({error}): check the path and its permissions")
    })?;
    if bytes.starts_with(&PACKED) {
        return Err(format!(
            "{shown} is packed by gzip: unpack it, as by `gunzip` or `tar xzf`"
        ));
    }
    let wrong = |bytes: &[u8], error: MaxMindDbError| {
        let why = no_database(bytes).unwrap_or_else(|| {
            format!("not a database of MaxMind's format ({error}): get it again, as a file of the type .mmdb")
        });
        format!("{shown} is {why}")
    };
    if let Err(error) = Reader::from_source(&*bytes) {
        return Err(wrong(&bytes, error));
    }
    Reader::from_source(bytes).map_err(|error| wrong(&[], error))
}

/// Fails if the nodes of the search tree share branches, so that reading it might never end.
fn bounded(reader: &Database) -> Result<(), MaxMindDbError> {
    let nodes = reader.metadata().node_count as usize;
    let most = nodes.saturating_add(1).saturating_mul(NETWORKS_PER_NODE);
    let every = WithinOptions::default()
        .include_aliased_networks()
        .include_networks_without_data();
    let limited = reader.networks(every)?.take(most.saturating_add(1));
    if limited.count() <= most {
        return Ok(());
    }
    let why = format!("its {nodes} nodes share branches, so that it has more than {most} networks");
    Err(MaxMindDbError::invalid_database(why))
}

/// The names of the fields of the first record, for a message.
fn fields(reader: &Database) -> String {
    let first = || {
        let network = reader.networks(Default::default()).ok()?.next()?.ok()?;
        let record = network.decode::<BTreeMap<String, IgnoredAny>>();
        let fields: Vec<_> = record.ok()??.into_keys().collect();
        (!fields.is_empty()).then(|| fields.join(", "))
    };
    let kind = &reader.metadata().database_type;
    match first() {
        Some(fields) => format!("; it is of the type '{kind}', and its first record has {fields}"),
        None => format!("; it is of the type '{kind}'"),
    }
}

/// A search for the prefixes of some countries and autonomous systems.
struct Search {
    /// The index of each of them in `found`.
    countries: HashMap<String, usize>,
    systems: HashMap<u32, usize>,
    /// True if there are prefixes of it.
    found: Vec<bool>,
    ipv4: Vec<Ipv4Net>,
    ipv6: Vec<Ipv6Net>,
    /// True if some record has a country, or an autonomous system.
    has: [bool; 2],
}

impl Search {
    fn new(countries: &[Country], systems: &[System]) -> Self {
        let names = countries.iter().map(|country| country.0.clone());
        let numbers = systems.iter().map(|system| system.0);
        Self {
            countries: names.zip(0..).collect(),
            systems: numbers.zip(countries.len()..).collect(),
            found: vec![false; countries.len() + systems.len()],
            ipv4: Vec::new(),
            ipv6: Vec::new(),
            has: [false; 2],
        }
    }

    fn read(&mut self, reader: &Database) -> Result<(), MaxMindDbError> {
        // Many networks share a record.
        let mut known = HashMap::new();
        for network in reader.networks(Default::default())? {
            let network = network?;
            let Some(offset) = network.offset() else {
                continue;
            };
            let indices = match known.get(&offset) {
                Some(indices) => *indices,
                None => {
                    let record = network.decode::<record::Value>()?;
                    let indices = record.map_or([None; 2], |record| self.wanted(&record));
                    known.insert(offset, indices);
                    indices
                }
            };
            if indices == [None; 2] {
                continue;
            }
            let net = network.network()?;
            match of_family(net.ip(), net.prefix()) {
                Some(IpNet::V4(net)) => self.ipv4.push(net),
                Some(IpNet::V6(net)) => self.ipv6.push(net),
                None => continue,
            }
            for index in indices.into_iter().flatten() {
                self.found[index] = true;
            }
        }
        Ok(())
    }

    /// The indices in `found` for a record.
    fn wanted(&mut self, record: &record::Value) -> [Option<usize>; 2] {
        let (country, system) = (record.country(), record.system());
        self.has[0] |= country.is_some();
        self.has[1] |= system.is_some();
        let country = country.and_then(|country| self.countries.get(&country).copied());
        [
            country,
            system.and_then(|system| self.systems.get(&system).copied()),
        ]
    }

    /// Says what the database lacks, and true if it has others of the kind.
    fn missing(&self) -> Option<(String, bool)> {
        let [has_countries, has_systems] = self.has;
        if !self.countries.is_empty() && !has_countries {
            return Some(("no codes of countries that limiter finds".to_owned(), false));
        }
        if !self.systems.is_empty() && !has_systems {
            let missing = "no numbers of autonomous systems that limiter finds";
            return Some((missing.to_owned(), false));
        }
        let names = self
            .countries
            .iter()
            .map(|(name, index)| (name.clone(), index));
        let systems = self.systems.iter();
        let mut names = names.chain(systems.map(|(number, index)| (format!("AS{number}"), index)));
        let (name, _) = names.find(|(_, index)| !self.found[**index])?;
        Some((format!("no prefixes of {name}"), true))
    }
}

/// The prefix as packets have it: databases of both families keep IPv4 under ::/96.
fn of_family(address: IpAddr, bits: u8) -> Option<IpNet> {
    let v4 = match address {
        IpAddr::V6(v6) if v6.segments()[..6] == [0; 6] => v6.to_ipv4().zip(bits.checked_sub(96)),
        _ => None,
    };
    let (address, bits) = v4.map_or((address, bits), |(v4, bits)| (v4.into(), bits));
    IpNet::new(address, bits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_databases_say_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.dat");
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        let legacy = b"\0\x01\x02GEO-106FREE 20180327 Build 1 Copyright (c) 2018 MaxMind Inc";
        for (bytes, says) in [
            (
                &legacy[..],
                "is a database of the format that ended in 2022 (GeoIP legacy, .dat)",
            ),
            (
                b"network,geoname_id\n192.0.2.0/24,1\n",
                "is text, as databases in CSV are",
            ),
            (b"PK\x03\x04\0\0", "is a ZIP archive: unpack it"),
            (b"\xfd7zXZ\0\0", "is packed with xz: unpack it"),
            (&tar, "is a tar archive: unpack it"),
            (b"\0\x01\x02\x03", "is not a database of MaxMind's format ("),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let why = prefixes(&path, &[], &[]).unwrap_err();
            assert!(
                why.contains(says) && why.contains("the type .mmdb"),
                "{why}"
            );
        }
    }

    #[test]
    fn country_that_a_database_lacks_is_told_from_a_database_without_countries() {
        let countries = [Country("QQ".to_owned())];
        let mut search = Search::new(&countries, &[]);
        let (missing, has_others) = search.missing().expect("a country");
        assert!(missing.contains("no codes of countries") && !has_others);
        search.has[0] = true;
        let missing = search.missing();
        assert_eq!(missing, Some(("no prefixes of QQ".to_owned(), true)));
    }

    #[test]
    fn countries_and_systems_are_read_as_people_write_them() {
        let country = |text: &str| Country::read(text).map(|Country(code)| code);
        assert_eq!(country("CN"), Ok("CN".to_owned()));
        for (text, says) in [
            ("UK", "write \"GB\""),
            ("uk", "write \"GB\""),
            ("EL", "write \"GR\""),
            ("cn", "write \"CN\""),
            ("China", "write two capital letters"),
            ("", "write two capital letters"),
        ] {
            let why = country(text).unwrap_err().to_string();
            assert!(why.contains(says), "{text}: {why}");
        }
        let system = |text: &str| System::read(text).map(|System(number)| number);
        for text in ["64500", "AS64500", "as64500"] {
            assert_eq!(system(text), Ok(64_500));
        }
        for text in [
            "",
            "AS",
            "AS-1",
            "+1",
            "1.10",
            "4294967296",
            "AS64500 x",
            "x",
        ] {
            let why = system(text).unwrap_err().to_string();
            assert!(why.contains("64500 or \"AS64500\""), "{text}: {why}");
        }
    }
}
