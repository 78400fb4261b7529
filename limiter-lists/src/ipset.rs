//! The output of `ipset save`, and of `ipset list`.

use std::{collections::HashMap, time::Duration};

use crate::{
    address::{self, Addresses},
    error::Error,
    lines::significant,
    list::{List, Place},
    reason::Reason,
    sets::{chosen, words},
};

/// Types of sets whose elements are addresses alone.
const TYPES: [&str; 3] = ["hash:ip", "hash:net", "bitmap:ip"];

/// Returns true if lines begin the output of `ipset list`.
pub fn is_listed(text: &str) -> bool {
    let mut lines = significant(text).map(|(_, line)| line);
    let kind = lines.next().filter(|line| line.starts_with("Name: "));
    let kind = kind.and_then(|_| lines.next()?.strip_prefix("Type: "));
    kind.is_some_and(is_kind)
}

fn is_kind(kind: &str) -> bool {
    let mut groups = ["hash:", "bitmap:", "list:"].iter();
    groups.any(|group| kind.starts_with(group))
}

/// Returns true if a line is one of `ipset save`.
pub fn is_line(line: &str) -> bool {
    let words = words(line);
    match words[..] {
        ["create", _, kind, ..] => is_kind(kind),
        ["add", _, element, ..] => address::read(element).is_ok(),
        _ => false,
    }
}

/// The properties of a set, from the line that creates it.
#[derive(Clone, Copy)]
struct Set {
    has_addresses: bool,
    timeout: Option<Duration>,
}

/// A line.
enum Line<'l> {
    /// A set, with its type and options.
    Set(&'l str, &'l str, Vec<&'l str>),
    /// An element of a set, with its options.
    Element(&'l str, &'l str, Vec<&'l str>),
    Other,
}

/// The lines of `ipset save`.
fn saved(text: &str) -> Vec<(u32, &str, Line<'_>)> {
    let read = |line| match words(line)[..] {
        ["create", name, kind, ref options @ ..] => Line::Set(name, kind, options.to_vec()),
        ["add", name, element, ref options @ ..] => Line::Element(name, element, options.to_vec()),
        _ => Line::Other,
    };
    let lines = significant(text);
    lines
        .map(|(number, line)| (number, line, read(line)))
        .collect()
}

/// The lines of `ipset list` that matter: a set has properties, then members.
fn listed(text: &str) -> Vec<(u32, &str, Line<'_>)> {
    let (mut name, mut kind, mut are_members) = ("", "", false);
    let mut lines = Vec::new();
    for (number, line) in significant(text) {
        let read = match line.split_once(": ") {
            Some(("Name", set)) => {
                (name, are_members) = (set, false);
                continue;
            }
            Some(("Type", found)) if !are_members => {
                kind = found;
                continue;
            }
            Some(("Header", options)) if !are_members => Line::Set(name, kind, words(options)),
            Some((property, _)) if !are_members && PROPERTIES.contains(&property) => continue,
            None if line == "Members:" => {
                are_members = true;
                continue;
            }
            _ => match words(line)[..] {
                [element, ref options @ ..] if are_members => {
                    Line::Element(name, element, options.to_vec())
                }
                _ => Line::Other,
            },
        };
        lines.push((number, line, read));
    }
    lines
}

/// Properties of a set in the output of `ipset list` that do not matter.
const PROPERTIES: [&str; 4] = [
    "Revision",
    "Size in memory",
    "References",
    "Number of entries",
];

/// Reads the elements of the set that `fields` names, or of the only one.
pub fn read(text: &str, fields: &[String], list: &mut List) -> Result<(), Error> {
    let mut sets: HashMap<&str, Set> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let lines = match is_listed(text) {
        true => listed(text),
        false => saved(text),
    };
    for (_, _, line) in &lines {
        if let Line::Set(name, ..) | Line::Element(name, ..) = line
            && !names.iter().any(|known| known == name)
        {
            names.push((*name).to_owned());
        }
        if let Line::Set(name, kind, options) = line {
            let mut pairs = options.windows(2);
            let timeout = pairs
                .find(|pair| pair[0] == "timeout")
                .and_then(|pair| seconds(pair[1]));
            let has_addresses = TYPES.contains(kind);
            sets.insert(
                name,
                Set {
                    has_addresses,
                    timeout,
                },
            );
        }
    }
    let chosen = chosen(&names, fields)?;
    let mut excluded = Vec::new();
    for (number, line, read) in lines {
        let place = Place::Line(number);
        match read {
            Line::Set(..) => {}
            Line::Element(name, ..) if !chosen.iter().any(|chosen| chosen == name) => {}
            Line::Element(name, element, options) => {
                let (read, timeout, is_excluded) = element_of(sets.get(name), element, &options);
                match read {
                    Ok(addresses) if is_excluded => {
                        excluded.push(addresses.range);
                        list.add(place, Err(Reason::NotBan), line);
                    }
                    read => list.add_until(place, read, line, timeout),
                }
            }
            Line::Other => list.add(place, Err(Reason::OtherKind), line),
        }
    }
    list.exclude(&excluded);
    Ok(())
}

type Element = (Result<Addresses, Reason>, Option<Duration>, bool);

fn element_of(set: Option<&Set>, element: &str, options: &[&str]) -> Element {
    let mut timeout = set.and_then(|set| set.timeout);
    let mut is_excluded = false;
    let mut read = match set {
        Some(set) if !set.has_addresses => Err(Reason::OtherKind),
        _ if element.contains(',') => Err(Reason::OtherKind),
        _ => address::read(element),
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "timeout" => match options.next().and_then(|time| time.parse().ok()) {
                Some(0) => timeout = None,
                Some(time) => timeout = Some(Duration::from_secs(time)),
                None => read = Err(Reason::Text),
            },
            "packets" | "bytes" | "comment" | "skbmark" | "skbprio" | "skbqueue" => {
                options.next();
            }
            "nomatch" => is_excluded = true,
            _ => read = Err(Reason::Text),
        }
    }
    (read, timeout, is_excluded)
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs)
}
