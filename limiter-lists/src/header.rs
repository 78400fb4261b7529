//! The columns of a table, and their names in a header.

use crate::{
    address::{self, Addresses, between, with_length},
    list::shortened,
    pair::Pair,
    reason::Reason,
};

/// Names of columns with an address or a prefix, in small letters, with `_` between words.
const ADDRESS: [&str; 43] = [
    "dstip",
    "client_ip",
    "clientip",
    "remote_ip",
    "ip",
    "ips",
    "ip_address",
    "ipaddress",
    "ip_addr",
    "address",
    "addr",
    "ipv4",
    "ipv6",
    "ipv4_address",
    "src_ip",
    "source_ip",
    "srcip",
    "dst_ip",
    "attacker_ip",
    "attacker",
    "cidr",
    "ip_cidr",
    "ip/cidr",
    "network",
    "net",
    "prefix",
    "ip_prefix",
    "subnet",
    "range",
    "ip_range",
    "iprange",
    "netblock",
    "ip/netmask",
    "ip_network",
    "cidr_block",
    "src",
    "src_addr",
    "source_address",
    "sourceip",
    "remote_address",
    "remote_addr",
    "ip_or_cidr",
    "badip",
];
/// Names of columns with the first and the last address of a range.
const ENDS: [(&str, &str); 29] = [
    ("start", "end"),
    ("first", "last"),
    ("begin", "stop"),
    ("from", "to"),
    ("start_ip", "end_ip"),
    ("startip", "endip"),
    ("ip_start", "ip_end"),
    ("ipstart", "ipend"),
    ("start_addr", "end_addr"),
    ("start_address", "end_address"),
    ("start_ip_address", "end_ip_address"),
    ("startaddress", "endaddress"),
    ("begin_ip", "stop_ip"),
    ("first_ip", "last_ip"),
    ("firstip", "lastip"),
    ("ip_first", "ip_last"),
    ("first_address", "last_address"),
    ("from_ip", "to_ip"),
    ("ip_from", "ip_to"),
    ("range_start", "range_end"),
    ("rangestart", "rangeend"),
    ("range_begin", "range_stop"),
    ("range_first", "range_last"),
    ("ip_range_start", "ip_range_end"),
    ("ip_range_begin", "ip_range_stop"),
    ("network_start", "network_end"),
    ("network_first", "network_last"),
    ("net_start", "net_end"),
    ("block_start", "block_end"),
];

const LENGTH: [&str; 14] = [
    "netmask",
    "mask",
    "prefixlen",
    "prefix_len",
    "prefix_length",
    "length",
    "masklen",
    "subnet_mask",
    "bits",
    "cidr_length",
    "network_mask",
    "mask_len",
    "len",
    "prefixlength",
];

/// Words that begin the names of columns with one side of a connection, whose addresses are no ends of ranges.
const SIDES: [&str; 10] = [
    "source",
    "src",
    "destination",
    "dst",
    "dest",
    "target",
    "client",
    "server",
    "local",
    "remote",
];

/// The columns with the addresses, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    Addresses(Vec<usize>),
    Range {
        first: usize,
        last: usize,
        length: Option<usize>,
    },
    Network {
        address: usize,
        length: usize,
    },
}

/// DShield's columns: the first and the last address, and the length.
pub const DSHIELD: Columns = Columns::Range {
    first: 0,
    last: 1,
    length: Some(2),
};

/// The name of a column in small letters, with `_` between words.
pub fn name_of(cell: &str) -> String {
    cell.trim().to_lowercase().replace([' ', '-'], "_")
}

/// Returns true if a column of this name has addresses.
pub fn is_address(cell: &str) -> bool {
    ADDRESS.contains(&name_of(cell).as_str())
}

/// Returns true if a column of this name has one side of a connection.
pub fn is_side(cell: &str) -> bool {
    SIDES.iter().any(|side| name_of(cell).starts_with(side))
}

/// The names of the fields beside one of this name that are the other part of a pair with it. True if they come before it.
pub fn others(name: &str) -> impl Iterator<Item = (Pair, &'static str, bool)> {
    let name = name_of(name);
    let ends = ENDS.into_iter().filter_map(move |(first, last)| {
        (name == first)
            .then_some((Pair::Ends, last, false))
            .or_else(|| (name == last).then_some((Pair::Ends, first, true)))
    });
    ends.chain(LENGTH.map(|length| (Pair::Network, length, false)))
}

/// The meaning of a line as a header.
pub enum Header {
    /// It is no header.
    None,
    /// The columns of the addresses.
    Columns(Columns),
    /// Several columns may have the addresses: all names.
    Unclear(Vec<String>),
}

/// The meaning of a line's cells as a header.
pub fn header(cells: &[String]) -> Header {
    let names: Vec<_> = cells.iter().map(|cell| name_of(cell)).collect();
    let places = |known: &[&str]| -> Vec<usize> {
        let mut places = names.iter().enumerate();
        let places = places
            .by_ref()
            .filter(|(_, name)| known.contains(&name.as_str()));
        places.map(|(place, _)| place).collect()
    };
    let (first, last) = (
        places(&ENDS.map(|(first, _)| first)),
        places(&ENDS.map(|(_, last)| last)),
    );
    let (addresses, lengths) = (places(&ADDRESS), places(&LENGTH));
    match (&first[..], &last[..], &addresses[..], &lengths[..]) {
        (&[first], &[last], _, lengths) if lengths.len() < 2 => {
            let length = lengths.first().copied();
            Header::Columns(Columns::Range {
                first,
                last,
                length,
            })
        }
        (_, _, &[address], &[length]) => Header::Columns(Columns::Network { address, length }),
        (_, _, &[address], _) => Header::Columns(Columns::Addresses(vec![address])),
        (_, _, [_, _, ..], _) => {
            Header::Unclear(cells.iter().map(|cell| shortened(cell)).collect())
        }
        _ => Header::None,
    }
}

/// The addresses of a row.
pub fn row(columns: &Columns, cells: &[&str]) -> Vec<Result<Addresses, Reason>> {
    let cell = |place: usize| match cells.get(place) {
        None | Some(&"") => Err(Reason::NoField),
        Some(cell) => Ok(*cell),
    };
    match columns {
        Columns::Addresses(places) => {
            let read = |place: &usize| address::read(cell(*place)?);
            places.iter().map(read).collect()
        }
        Columns::Range {
            first,
            last,
            length,
        } => {
            let ends = || {
                let range = between(
                    address::address(cell(*first)?)?,
                    address::address(cell(*last)?)?,
                )?;
                let Some(length) = length else {
                    return Ok(range);
                };
                let network = with_length(range.range.first(), cell(*length)?)?;
                match network == range {
                    true => Ok(range),
                    false => Err(Reason::WrongRange),
                }
            };
            vec![ends()]
        }
        Columns::Network { address, length } => {
            let network = || {
                let text = cell(*address)?;
                match text.parse() {
                    Ok(address) => with_length(address, cell(*length)?.trim_start_matches('/')),
                    // The length is there already.
                    Err(_) => address::read(text),
                }
            };
            vec![network()]
        }
    }
}
