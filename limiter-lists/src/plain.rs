//! Lists with an entry in each line.

use std::net::IpAddr;

use crate::{
    address::{self, Addresses, is_netmask, is_number},
    lines::{significant, without_comment},
    list::{List, Place},
    reason::Reason,
};

/// Reads an entry of each line but the one whose number is `header`.
pub fn read(text: &str, header: Option<u32>, list: &mut List) {
    for (number, line) in significant(text) {
        if Some(number) != header {
            add(list, Place::Line(number), line);
        }
    }
}

fn add(list: &mut List, place: Place, line: &str) {
    let (entry, has_more) = without_comment(line);
    if has_more {
        return list.add(place, Err(Reason::Ambiguous), line);
    }
    let entry = unquoted(entry.strip_suffix([',', ';']).unwrap_or(entry));
    match address::read(entry) {
        Err(Reason::Text) => match several(entry) {
            Ok(all) => all
                .into_iter()
                .for_each(|entry| list.add(place, Ok(entry), line)),
            Err(reason) => list.add(place, Err(reason), line),
        },
        read => list.add(place, read, line),
    }
}

/// A text without quotes around it.
pub fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn words(text: &str) -> Vec<&str> {
    let words = text.split(|end: char| end.is_whitespace() || end == ',');
    words
        .filter(|word| !word.is_empty())
        .map(unquoted)
        .collect()
}

/// Reads several entries in a line. Two addresses may be a range, so that there must be three, or a length at each.
fn several(text: &str) -> Result<Vec<Addresses>, Reason> {
    let words = words(text);
    let read: Result<Vec<_>, _> = words.iter().map(|word| address::read(word)).collect();
    let is_certain = |word: &&str| word.contains(['/', '-']);
    let has_mask = words.iter().any(|word| is_netmask(word));
    match read {
        Ok(all) if !has_mask && (words.len() > 2 || words.iter().all(is_certain)) => Ok(all),
        _ => Err(why_not(&words)),
    }
}

fn why_not(words: &[&str]) -> Reason {
    match words {
        [_, second, ..]
            if is_number(second.trim_start_matches('/')) || second.parse::<IpAddr>().is_ok() =>
        {
            Reason::Ambiguous
        }
        _ => Reason::Text,
    }
}

/// Tor's list of exits: the addresses in lines with `ExitAddress`.
pub fn tor(text: &str, list: &mut List) {
    for (number, line) in significant(text) {
        let mut words = line.split_whitespace();
        let read = match (words.next(), words.next()) {
            (Some("ExitAddress"), Some(exit)) => address::read(exit),
            (Some(word), _) if TOR.contains(&word) => continue,
            _ => Err(Reason::NotAddress),
        };
        list.add(Place::Line(number), read, line);
    }
}

/// Words that begin the other lines of Tor's list of exits.
pub const TOR: [&str; 5] = ["ExitNode", "Published", "LastStatus", "Downloaded", "@type"];
