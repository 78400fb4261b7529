//! The prefixes of countries and autonomous systems, from a database in MaxMind's format.

use std::{collections::HashMap, net::IpAddr, path::Path};

use ipnet::IpNet;
use maxminddb::{MaxMindDbError, Reader, WithinOptions, path};

use super::{Invalid, Prefixes, Text, ensure};
use crate::files;

/// The longest database in bytes.
const LONGEST: u64 = 1 << 30;

/// The most networks of a database, as a multiple of its nodes. A search tree has one more than it has nodes. Databases
/// of both families lead to those of IPv4 from a few prefixes of IPv6 too, as from 2002::/16.
const NETWORKS_PER_NODE: usize = 8;

/// A country, as in CN (ISO 3166-1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Country(String);

impl Text for Country {
    fn read(text: &str) -> Result<Self, Invalid> {
        let is_code = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        ensure!(
            is_code,
            "'{}' is not a country: write two capital letters as in \"CN\"",
            text.escape_debug()
        );
        Ok(Self(text.to_owned()))
    }

    fn shown(&self) -> String {
        self.0.clone()
    }
}

/// Reads the prefixes of countries and autonomous systems.
/// Fails if the database cannot be read, or has no prefixes of one of them.
pub fn prefixes(path: &Path, countries: &[Country], systems: &[u64]) -> Result<Prefixes, String> {
    let shown = path.display();
    let bytes = files::read(path, LONGEST).map_err(|error| {
        format!("{shown} cannot be read ({error}): check the path and its permissions")
    })?;
    let names = countries.iter().map(|country| country.0.clone());
    let names = names.chain(systems.iter().map(|number| format!("AS{number}")));
    let mut found: HashMap<String, Prefixes> = names.map(|name| (name, Prefixes::new())).collect();
    read(&bytes, &mut found).map_err(|error| {
        format!("{shown} is not a database of MaxMind's format ({error}): get it again")
    })?;
    match found.iter().find(|(_, prefixes)| prefixes.is_empty()) {
        Some((name, _)) => Err(format!("{shown} has no prefixes of {name}")),
        None => Ok(found.into_values().flatten().collect()),
    }
}

fn read(bytes: &[u8], found: &mut HashMap<String, Prefixes>) -> Result<(), MaxMindDbError> {
    let reader = Reader::from_source(bytes)?;
    let nodes = reader.metadata().node_count as usize;
    let most = nodes.saturating_add(1).saturating_mul(NETWORKS_PER_NODE);
    let every = WithinOptions::default()
        .include_aliased_networks()
        .include_networks_without_data();
    let limited = reader.networks(every)?.take(most.saturating_add(1));
    if limited.count() > most {
        let why =
            format!("its {nodes} nodes share branches, so that it has more than {most} networks");
        return Err(MaxMindDbError::invalid_database(why));
    }
    for network in reader.networks(Default::default())? {
        let network = network?;
        let country: Option<String> = network.decode_path(&path!["country", "iso_code"])?;
        let system: Option<u32> = network.decode_path(&path!["autonomous_system_number"])?;
        let names = country
            .into_iter()
            .chain(system.map(|number| format!("AS{number}")));
        for name in names {
            if let Some(prefixes) = found.get_mut(&name) {
                let net = network.network()?;
                prefixes.extend(of_family(net.ip(), net.prefix()));
            }
        }
    }
    Ok(())
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
