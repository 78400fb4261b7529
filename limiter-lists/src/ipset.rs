//! The output of `ipset save`.

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

/// Returns true if a line is one of `ipset save`.
pub fn is_line(line: &str) -> bool {
    let words = words(line);
    match words[..] {
        ["create", _, kind, ..] => ["hash:", "bitmap:", "list:"]
            .iter()
            .any(|group| kind.starts_with(group)),
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

/// Reads the elements of the set that `fields` names, or of the only one.
pub fn read(text: &str, fields: &[String], list: &mut List) -> Result<(), Error> {
    let mut sets: HashMap<String, Set> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    for (_, line) in significant(text) {
        let words = words(line);
        if let ["create" | "add", name, ..] = words[..]
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
        if let ["create", name, kind, options @ ..] = &words[..] {
            let mut pairs = options.windows(2);
            let timeout = pairs
                .find(|pair| pair[0] == "timeout")
                .and_then(|pair| seconds(pair[1]));
            let has_addresses = TYPES.contains(kind);
            sets.insert(
                (*name).to_owned(),
                Set {
                    has_addresses,
                    timeout,
                },
            );
        }
    }
    let chosen = chosen(&names, fields)?;
    let mut excluded = Vec::new();
    for (number, line) in significant(text) {
        let words = words(line);
        let place = Place::Line(number);
        match &words[..] {
            ["create", ..] => {}
            ["add", name, ..] if !chosen.iter().any(|chosen| chosen == name) => {}
            ["add", name, element, options @ ..] => {
                let (read, timeout, is_excluded) = element_of(sets.get(*name), element, options);
                match read {
                    Ok(addresses) if is_excluded => {
                        excluded.push(addresses.range);
                        list.add(place, Err(Reason::NotBan), line);
                    }
                    read => list.add_until(place, read, line, timeout),
                }
            }
            _ => list.add(place, Err(Reason::OtherKind), line),
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
