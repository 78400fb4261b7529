//! The lists of file sharing programs, with a name at each range.

use crate::{
    address::{Addresses, between, padded},
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

fn ends(range: &str) -> Result<Addresses, Reason> {
    let (first, last) = range.split_once('-').ok_or(Reason::NotAddress)?;
    between(padded(first.trim())?, padded(last.trim())?)
}
