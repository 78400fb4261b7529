//! The lists of file sharing programs, with a name at each range, and those of the registries of addresses.

use std::net::Ipv4Addr;

use crate::{
    address::{Addresses, address, between, padded, with_length},
    lines::significant,
    list::{List, Place},
    reason::Reason,
};

/// The lowest level at which eMule lets a range pass.
const PASSES: u32 = 127;

/// Reads `name:first-last` in each line.
pub fn p2p(text: &str, list: &mut List) {
    for (number, line) in significant(text) {
        list.add(Place::Line(number), p2p_line(line), line);
    }
}

/// Reads `first - last , level , name` in each line.
pub fn ipfilter(text: &str, list: &mut List) {
    for (number, line) in significant(text) {
        list.add(Place::Line(number), ipfilter_line(line), line);
    }
}

/// Reads a line of PeerGuardian's lists. The name may have colons.
pub fn p2p_line(line: &str) -> Result<Addresses, Reason> {
    let (_, range) = line.rsplit_once(':').ok_or(Reason::NotAddress)?;
    ends(range)
}

/// Reads a line of eMule's list.
pub fn ipfilter_line(line: &str) -> Result<Addresses, Reason> {
    let mut columns = line.splitn(3, ',');
    let (Some(range), Some(level)) = (columns.next(), columns.next()) else {
        return Err(Reason::NoField);
    };
    let level: u32 = level.trim().parse().map_err(|_| Reason::NoField)?;
    let read = ends(range)?;
    match level < PASSES {
        true => Ok(read),
        false => Err(Reason::NotBan),
    }
}

/// The registries of addresses.
const REGISTRIES: [&str; 5] = ["afrinic", "apnic", "arin", "lacnic", "ripencc"];

/// Reads the lists of networks that registries have delegated, or some of their lines.
pub fn delegated(text: &str, list: &mut List) {
    for (number, line) in significant(text) {
        let cells: Vec<_> = line.split('|').collect();
        let read = match cells[..] {
            _ if is_version(&cells) || cells.last() == Some(&"summary") => continue,
            [_, _, "ipv4", first, count, ..] => counted(first, count),
            [_, _, "ipv6", first, length, ..] => {
                address(first).and_then(|first| with_length(first, length))
            }
            [_, _, "asn", ..] => Err(Reason::OtherKind),
            _ => Err(Reason::NotAddress),
        };
        list.add(Place::Line(number), read, line);
    }
}

/// Returns true if a line is one of such a list.
pub fn is_delegated(line: &str) -> bool {
    let cells: Vec<_> = line.split('|').collect();
    let is_entry = match cells[..] {
        [registry, _, kind, _, _, ..] => {
            REGISTRIES.contains(&registry) && ["ipv4", "ipv6", "asn"].contains(&kind)
        }
        _ => false,
    };
    is_entry || is_version(&cells)
}

/// Returns true for the first line, as in `2|apnic|20260101|…`.
fn is_version(cells: &[&str]) -> bool {
    match cells {
        [version, registry, ..] => REGISTRIES.contains(registry) && version.parse::<f32>().is_ok(),
        _ => false,
    }
}

/// The addresses from `first`, of which there are so many.
fn counted(first: &str, count: &str) -> Result<Addresses, Reason> {
    let begin: Ipv4Addr = first.parse().map_err(|_| Reason::NotAddress)?;
    let more = count
        .parse::<u32>()
        .ok()
        .and_then(|count| count.checked_sub(1));
    let last = more.and_then(|more| begin.to_bits().checked_add(more));
    let last = last.ok_or(Reason::WrongRange)?;
    between(begin.into(), Ipv4Addr::from_bits(last).into())
}

fn ends(range: &str) -> Result<Addresses, Reason> {
    let (first, last) = range.split_once('-').ok_or(Reason::NotAddress)?;
    between(padded(first.trim())?, padded(last.trim())?)
}
