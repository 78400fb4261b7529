//! Columns or words that belong together: the ends of a range, or an address and a length.

use std::net::IpAddr;

use crate::{
    address::{self, Addresses, between, is_netmask, with_length},
    cells::{Cutter, DELIMITERS},
    error::Error,
    format::Format,
    header::{Columns, Header, header, is_side},
    lines::significant,
    list::{List, Place},
    pair::Pair,
    plain::unquoted,
    range::Range,
    reason::Reason,
    rows::is_title,
    table::{Layout, by_header, read, rows_behind},
};

/// Rows that show whether two columns belong together.
const SHOWN: usize = 200;

/// Bits behind the lengths of networks, in all rows, that are 0 by chance in one of 256 lists.
const ZEROS: u32 = 8;

/// Reads a pair in each line, between any of the usual characters, with other words behind it. A line may also have one
/// entry. A header with such a pair tells its columns.
pub fn lines(text: &str, pair: Pair, list: &mut List) {
    let named = by_header(text).ok().flatten();
    if let Some(layout) = named.filter(|layout| layout.is_pair(pair)) {
        return read(text, &layout, list);
    }
    let mut cutters = DELIMITERS.map(Cutter::new);
    let mut is_first = true;
    for (number, line) in significant(text) {
        let entry = line.split('#').next().unwrap_or_default().trim_end();
        let is_header = is_first && is_title(entry);
        is_first = false;
        if !is_header {
            list.add(Place::Line(number), words(&mut cutters, entry, pair), line);
        }
    }
}

fn words(cutters: &mut [Cutter], entry: &str, pair: Pair) -> Result<Addresses, Reason> {
    for cutter in cutters {
        let cells = cutter.cut(entry).unwrap_or_default();
        let [first, second, rest @ ..] = &cells[..] else {
            continue;
        };
        let Ok(first) = first.parse() else { continue };
        return match pair {
            // A third one may be the first of another pair.
            _ if rest.iter().any(|cell| address::read(cell).is_ok()) => Err(Reason::Ambiguous),
            Pair::Ends if is_netmask(second) => Err(Reason::Ambiguous),
            Pair::Ends => between(first, address::address(second)?),
            Pair::Network => with_length(first, second.trim_start_matches('/')),
        };
    }
    address::read(unquoted(entry))
}

/// The columns that fields name under a format. `cells`: of the header, if there is one.
/// Fails if two columns that may belong together are not both meant, or the list does not say how.
pub fn columns(
    text: &str,
    format: Option<Format>,
    layout: &Layout,
    (places, cells): (Vec<usize>, &[String]),
) -> Result<Columns, Error> {
    let network = |address, length| Columns::Network { address, length };
    let ends = |first, last| Columns::Range {
        first,
        last,
        length: None,
    };
    match (format, &places[..]) {
        (Some(Format::Ranges), &[first, last]) => return Ok(ends(first, last)),
        (Some(Format::Networks), &[address, length]) => return Ok(network(address, length)),
        (Some(Format::Ranges), _) => return Err(Error::TwoFields(Pair::Ends)),
        (Some(Format::Networks), _) => return Err(Error::TwoFields(Pair::Network)),
        (Some(_), _) => return Ok(Columns::Addresses(places)),
        (None, _) => {}
    }
    let name = |place: usize| match cells.get(place) {
        Some(name) => name.clone(),
        None => (place + 1).to_string(),
    };
    let may_be = |pair, first, second| Error::MayBePair(pair, name(first), name(second));
    let has = |place| places.contains(&place);
    match header(cells) {
        Header::Columns(columns) => match columns {
            Columns::Range { first, last, .. } if has(first) && has(last) && places.len() == 2 => {
                return match layout.is_certain(text, &columns, cells) {
                    true => Ok(columns),
                    false => Err(may_be(Pair::Ends, first, last)),
                };
            }
            Columns::Network { address, length } if has(address) && has(length) => {
                return Ok(columns);
            }
            Columns::Range { first, last, .. } if has(first) || has(last) => {
                return Err(may_be(Pair::Ends, first, last));
            }
            Columns::Network { address, length } if has(address) || has(length) => {
                return Err(may_be(Pair::Network, address, length));
            }
            _ => {}
        },
        // It names several columns of addresses.
        Header::Unclear(_) => return Ok(Columns::Addresses(places)),
        Header::None => {}
    }
    let shown = rows_behind(text, layout.header).take(SHOWN);
    let shown: Vec<_> = shown.map(|(_, line)| layout.cut(line)).collect();
    let width = shown.iter().map(Vec::len).max().unwrap_or(0);
    let is_side = |place: usize| cells.get(place).is_some_and(|cell| is_side(cell));
    for place in &places {
        for other in (0..width).filter(|other| other != place) {
            if is_side(*place) && is_side(other) {
                continue;
            }
            for (first, second) in [(*place, other), (other, *place)] {
                if let Some(pair) = evidence(&shown, first, second) {
                    return Err(may_be(pair, first, second));
                }
            }
        }
    }
    Ok(Columns::Addresses(places))
}

/// The pair that two columns may be, by the rows.
fn evidence(rows: &[Vec<String>], first: usize, second: usize) -> Option<Pair> {
    let (mut pairs, mut ranges) = (0, 0);
    let (mut are_lengths, mut zeros) = (true, 0);
    for cells in rows {
        let (Some(first), Some(second)) = (cells.get(first), cells.get(second)) else {
            continue;
        };
        // A prefix has its length already.
        let Ok(address) = first.parse::<IpAddr>() else {
            continue;
        };
        match second.parse() {
            Ok(other) if !is_netmask(second) => {
                are_lengths = false;
                pairs += usize::from(address != other);
                ranges += usize::from(is_range(address, other));
            }
            _ => match with_length(address, second.trim_start_matches('/')) {
                Ok(network) if !network.has_host_bits => zeros += host_bits(&network.range),
                _ => are_lengths = false,
            },
        }
    }
    if ranges * 2 > pairs {
        return Some(Pair::Ends);
    }
    (are_lengths && zeros >= ZEROS).then_some(Pair::Network)
}

/// Returns true for addresses that are the ends of a range which may be banned, and not two of the whole Internet.
fn is_range(first: IpAddr, last: IpAddr) -> bool {
    let is_near = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => first.octets()[0] == last.octets()[0],
        (IpAddr::V6(first), IpAddr::V6(last)) => first.segments()[0] == last.segments()[0],
        _ => false,
    };
    is_near && first != last && Range::new(first, last).is_some()
}

fn host_bits(range: &Range) -> u32 {
    let network = range.prefixes().next();
    network.map_or(0, |net| u32::from(net.max_prefix_len() - net.prefix_len()))
}
