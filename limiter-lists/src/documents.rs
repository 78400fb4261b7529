//! Lists in JSON: which fields have the addresses.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    address,
    error::Error,
    json::{Leaf, Tree},
    lines::significant,
    list::{List, Place, shortened},
    reason::Reason,
};

/// Documents of publishers, and all places at which they have addresses.
const KNOWN: [(&str, &[&str]); 6] = [
    (
        "AWS's ip-ranges.json",
        &["prefixes[].ip_prefix", "ipv6_prefixes[].ipv6_prefix"],
    ),
    (
        "Google's goog.json or cloud.json",
        &["prefixes[].ipv4Prefix", "prefixes[].ipv6Prefix"],
    ),
    (
        "Cloudflare's addresses",
        &["result.ipv4_cidrs[]", "result.ipv6_cidrs[]"],
    ),
    (
        "Fastly's public-ip-list",
        &["addresses[]", "ipv6_addresses[]"],
    ),
    (
        "Azure's service tags",
        &["values[].properties.addressPrefixes[]"],
    ),
    (
        "Oracle's public_ip_ranges.json",
        &["regions[].cidrs[].cidr"],
    ),
];

/// A place that only GitHub's meta document has. There, each array of the document has the addresses of a service.
const GITHUB: &str = "hooks[]";

/// Fields of a line that have its addresses.
const FIELDS: [&str; 10] = [
    "cidr",
    "ip",
    "range",
    "prefix",
    "network",
    "subnet",
    "address",
    "ip_address",
    "ip_prefix",
    "ip_range",
];

/// Fields which show that a document of one object is a list of one line.
const ONE: [&str; 4] = ["cidr", "range", "prefix", "network"];

/// The most places that an error names.
const NAMED: usize = 12;

/// The strings at the places of a document: those that are addresses, and all values.
type Found = BTreeMap<usize, (u64, u64)>;

fn count(found: &mut Found, place: usize, leaf: &Leaf) {
    let is_address = matches!(leaf, Leaf::Text(text) if address::read(text).is_ok());
    let counts = found.entry(place).or_default();
    *counts = (counts.0 + u64::from(is_address), counts.1 + 1);
}

/// A path in the form of [`Tree`]: `$.a[*].b` is `a[].b`.
fn path(field: &str) -> String {
    let field = field.trim_start_matches('$').replace("[*]", "[]");
    field.trim_start_matches('.').to_owned()
}

fn names(tree: &Tree, places: &BTreeSet<usize>) -> Vec<String> {
    let names = places
        .iter()
        .take(NAMED)
        .map(|place| shortened(tree.path(*place)));
    names.collect()
}

/// Reads a document.
pub fn read(text: &str, fields: &[String], list: &mut List) -> Result<(), Error> {
    let mut tree = Tree::new();
    let mut found = Found::new();
    let walked = tree.walk(text, &mut |place, leaf| count(&mut found, place, &leaf));
    walked.map_err(|error| Error::NotJson(error.to_string()))?;
    let with_addresses: BTreeSet<usize> = found
        .iter()
        .filter(|(_, (addresses, all))| addresses * 2 > *all)
        .map(|(place, _)| *place)
        .collect();
    let wanted = match fields {
        [] => {
            let (wanted, why) = layout(&tree, &with_addresses, text)?;
            list.why = why;
            wanted
        }
        fields => by_fields(&tree, &found, fields, &with_addresses, text)?,
    };
    let mut number = 0;
    let walked = tree.walk(text, &mut |place, leaf| {
        if wanted.contains(&place) {
            number += 1;
            let (read, text) = value(&leaf);
            list.add(Place::Element(number), read, text);
        }
    });
    walked.map_err(|error| Error::NotJson(error.to_string()))
}

fn value<'l>(leaf: &Leaf<'l>) -> (Result<address::Addresses, Reason>, &'l str) {
    match leaf {
        Leaf::Text(text) => (address::read(text.trim()), text),
        Leaf::Other => (Err(Reason::NotAddress), "a value that is not a string"),
    }
}

fn by_fields(
    tree: &Tree,
    found: &Found,
    fields: &[String],
    with_addresses: &BTreeSet<usize>,
    text: &str,
) -> Result<BTreeSet<usize>, Error> {
    let place = |field: &String| {
        let wanted = path(field);
        let place = found
            .keys()
            .find(|place| tree.path(**place) == wanted)
            .copied();
        place.ok_or_else(|| Error::NoAddresses {
            text: shortened(text),
            field: Some(field.clone()),
            found: names(tree, with_addresses),
        })
    };
    fields.iter().map(place).collect()
}

/// The places of a document that is known, or has a single place with addresses, within an array.
fn layout(
    tree: &Tree,
    places: &BTreeSet<usize>,
    text: &str,
) -> Result<(BTreeSet<usize>, String), Error> {
    let paths: Vec<_> = places.iter().map(|place| tree.path(*place)).collect();
    let known = KNOWN
        .iter()
        .find(|(_, known)| paths.iter().all(|path| known.contains(path)));
    let is_github = paths.contains(&GITHUB)
        && paths.iter().all(|path| {
            let name = path.strip_suffix("[]");
            name.is_some_and(|name| !name.contains(['[', '.']))
        });
    let why = match (&paths[..], known) {
        ([], _) => {
            return Err(Error::NoAddresses {
                text: shortened(text),
                field: None,
                found: Vec::new(),
            });
        }
        (_, Some((name, _))) => format!("it is laid out as {name}"),
        _ if is_github => "it is laid out as GitHub's meta document".to_owned(),
        ([path], None) if path.contains("[]") => format!("only {path} has addresses"),
        ([path], None) if ONE.contains(path) => format!("it is a line with {path}"),
        _ => return Err(Error::WhichField(names(tree, places))),
    };
    Ok((places.clone(), why))
}

/// Reads a document of each line. Without `fields`, a line has one of the usual fields.
pub fn lines(text: &str, fields: &[String], list: &mut List) -> Result<(), Error> {
    let wanted: Vec<_> = match fields {
        [] => FIELDS.map(str::to_owned).to_vec(),
        fields => fields.iter().map(|field| path(field)).collect(),
    };
    let mut tree = Tree::new();
    let mut is_found = false;
    for (number, line) in significant(text) {
        let place = Place::Line(number);
        let mut values = Vec::new();
        let (mut kind, mut places) = (false, BTreeSet::new());
        let mut leaves = Vec::new();
        let walked = tree.walk(line, &mut |place, leaf| match leaf {
            Leaf::Text(text) => leaves.push((place, Some(text.to_owned()))),
            Leaf::Other => leaves.push((place, None)),
        });
        if walked.is_err() {
            list.add(place, Err(Reason::NotAddress), line);
            continue;
        }
        for (found, text) in leaves {
            let path = tree.path(found);
            kind |= path == "type" && text.as_deref() == Some("metadata");
            if wanted.iter().any(|wanted| wanted == path) {
                places.insert(found);
                values.push(text);
            }
        }
        is_found |= !places.is_empty();
        match places.len() {
            // Spamhaus says in the last line what the list is.
            0 if kind => {}
            0 => list.add(place, Err(Reason::NoField), line),
            2.. if fields.is_empty() => list.add(place, Err(Reason::Ambiguous), line),
            _ => {
                for text in values {
                    let text = text.as_deref();
                    let (read, _) = value(&text.map_or(Leaf::Other, Leaf::Text));
                    list.add(place, read, line);
                }
            }
        }
    }
    match is_found {
        true => Ok(()),
        false => Err(Error::NoAddresses {
            text: shortened(text),
            field: (!fields.is_empty()).then(|| fields.join(", ")),
            found: Vec::new(),
        }),
    }
}
