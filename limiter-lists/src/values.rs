//! The values of JSON documents by their places: where there are addresses.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use crate::{
    address,
    error::Error,
    header,
    json::{Leaf, Tree},
};

/// The values at a place of a document.
#[derive(Default)]
pub struct Counts {
    /// Those that are addresses, prefixes or ranges.
    pub addresses: u64,
    /// Those of these that are one address.
    pub single: u64,
    all: u64,
}

impl Counts {
    fn has_addresses(&self) -> bool {
        self.addresses * 2 > self.all
    }
}

/// The values by place.
pub type Found = BTreeMap<usize, Counts>;

/// Counts a value.
pub fn count(found: &mut Found, place: usize, leaf: &Leaf) {
    let (mut is_address, mut is_single) = (false, false);
    if let Leaf::Text(text) = leaf {
        is_address = address::read(text).is_ok();
        is_single = text.parse::<IpAddr>().is_ok();
    }
    let counts = found.entry(place).or_default();
    counts.addresses += u64::from(is_address);
    counts.single += u64::from(is_single);
    counts.all += 1;
}

/// The places of which most values are addresses.
pub fn with_addresses(found: &Found) -> BTreeSet<usize> {
    let places = found.iter().filter(|(_, counts)| counts.has_addresses());
    places.map(|(place, _)| *place).collect()
}

/// Fails if a field that is read may be a part of an entry, and another field the other part: the end of a range, or the
/// length of a network.
pub fn are_whole(tree: &Tree, found: &Found, wanted: &BTreeSet<usize>) -> Result<(), Error> {
    let parts = |place: &usize| {
        let path = tree.path(*place);
        path.rsplit_once('.').unwrap_or(("", path))
    };
    let mut fields: HashMap<&str, HashMap<String, &str>> = HashMap::new();
    for place in found.keys() {
        let (parent, key) = parts(place);
        let beside = fields.entry(parent).or_default();
        beside.insert(header::name_of(key), key);
    }
    let is_single = |place: &&usize| found.get(place).is_some_and(|counts| counts.single > 0);
    for place in wanted.iter().filter(is_single) {
        let (parent, key) = parts(place);
        let beside = &fields[parent];
        for (pair, other, is_before) in header::others(key) {
            if let Some(other) = beside.get(other) {
                let (first, second) = if is_before {
                    (*other, key)
                } else {
                    (key, *other)
                };
                return Err(Error::InParts(pair, first.to_owned(), second.to_owned()));
            }
        }
    }
    Ok(())
}
