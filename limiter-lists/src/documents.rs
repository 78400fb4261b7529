//! Lists in JSON: which fields have the addresses.

use std::collections::BTreeSet;

use crate::{
    address,
    error::Error,
    json::{BEYOND, Leaf, MOST, Tree},
    lines::significant,
    list::{List, Place, shortened},
    reason::Reason,
    values::{Found, are_whole, count, with_addresses},
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

/// The beginning of all places in the JSON output of nft.
const NFT: &str = "nftables[].";

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

/// A path in the form of [`Tree`]: `$.a[*].b` is `a[].b`.
fn path(field: &str) -> String {
    let field = field.trim_start_matches('$').replace("[*]", "[]");
    field.trim_start_matches('.').to_owned()
}

/// The paths of places, for a message. They are whole: a field must be able to name them.
fn names(tree: &Tree, places: &BTreeSet<usize>) -> Vec<String> {
    let places = places.iter().filter(|place| **place != BEYOND);
    let mut names: Vec<_> = places.map(|place| tree.path(*place).to_owned()).collect();
    if let Some(more) = names.len().checked_sub(NAMED).filter(|more| *more > 0) {
        names.truncate(NAMED);
        names.push(format!("and {more} more, where * stands for every key"));
    }
    names
}

/// Reads a document.
pub fn read(text: &str, fields: &[String], list: &mut List) -> Result<(), Error> {
    let mut tree = Tree::new();
    let mut found = Found::new();
    let walked = tree.walk(text, &mut |place, leaf| count(&mut found, place, &leaf));
    walked.map_err(|error| Error::NotJson(error.to_string()))?;
    let with_addresses = with_addresses(&found);
    let wanted = match fields {
        [] => {
            // One field may have whole prefixes beside the parts.
            let has_whole = |place: &usize| found[place].addresses > found[place].single;
            if !with_addresses.iter().any(has_whole) {
                are_whole(&tree, &found, &with_addresses)?;
            }
            let (wanted, why) = layout(&tree, &with_addresses, text)?;
            list.why = why;
            wanted
        }
        fields => by_fields(&tree, &found, fields, &with_addresses, text)?,
    };
    are_whole(&tree, &found, &wanted)?;
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
    let mut all = BTreeSet::new();
    for field in fields {
        let path = path(field);
        let mut places = tree.places(&path);
        places.extend(tree.place(&path));
        places.retain(|place| found.contains_key(place));
        if places.is_empty() {
            return Err(Error::NoAddresses {
                text: shortened(text),
                field: Some(field.clone()),
                found: names(tree, with_addresses),
            });
        }
        let is_one = places.len() == 1 && places.iter().all(|place| tree.path(*place) == path);
        if !is_one && with_addresses.contains(&BEYOND) {
            return Err(Error::ManyPlaces(MOST));
        }
        all.extend(places);
    }
    Ok(all)
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
    if paths.iter().any(|path| path.starts_with(NFT)) {
        return Err(Error::NftJson);
    }
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
        ([path], None) if path.contains("{}") => {
            format!("only the keys of an object, {path}, are addresses")
        }
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
    let (mut meant, mut known) = (BTreeSet::new(), 0);
    let (mut used, mut several) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Found::new();
    for (number, line) in significant(text) {
        let place = Place::Line(number);
        let mut values = Vec::new();
        let (mut kind, mut places) = (false, BTreeSet::new());
        let mut leaves = Vec::new();
        let walked = tree.walk(line, &mut |place, leaf| {
            count(&mut found, place, &leaf);
            leaves.push((
                place,
                match leaf {
                    Leaf::Text(text) => Some(text.to_owned()),
                    Leaf::Other => None,
                },
            ));
        });
        if walked.is_err() {
            list.add(place, Err(Reason::NotAddress), line);
            continue;
        }
        if tree.len() > known {
            known = tree.len();
            meant = wanted.iter().flat_map(|path| tree.places(path)).collect();
        }
        for (leaf, text) in leaves {
            let path = tree.path(leaf);
            kind |= path == "type" && text.as_deref() == Some("metadata");
            if meant.contains(&leaf) || wanted.iter().any(|wanted| wanted == path) {
                places.insert(leaf);
                values.push(text);
            }
        }
        match places.len() {
            // Spamhaus says in the last line what the list is.
            0 if kind => {}
            0 => list.add(place, Err(Reason::NoField), line),
            2.. if fields.is_empty() => {
                several.extend(places);
                list.add(place, Err(Reason::NoField), line);
            }
            _ => {
                used.extend(places);
                for text in values {
                    let text = text.as_deref();
                    let (read, _) = value(&text.map_or(Leaf::Other, Leaf::Text));
                    list.add(place, read, line);
                }
            }
        }
    }
    are_whole(&tree, &found, &used)?;
    if !used.is_empty() {
        return Ok(());
    }
    if !several.is_empty() {
        return Err(Error::WhichField(names(&tree, &several)));
    }
    // None of the fields is in any line.
    let others = with_addresses(&found);
    let names = names(&tree, &others);
    match (&names[..], fields) {
        ([name], []) => {
            *list = List::new(list.format, format!("only {name} has addresses"));
            lines(text, &names, list)
        }
        ([_, _, ..], []) => Err(Error::WhichField(names)),
        _ => Err(Error::NoAddresses {
            text: shortened(text),
            field: (!fields.is_empty()).then(|| fields.join(", ")),
            found: names,
        }),
    }
}
