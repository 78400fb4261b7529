//! The columns of a table, and their names in a header.

use crate::{
    address::{self, Addresses, between, with_length},
    list::shortened,
    reason::Reason,
};

/// Names of columns with an address or a prefix, in small letters, with `_` between words.
const ADDRESS: [&str; 33] = [
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
];
const FIRST: [&str; 12] = [
    "start",
    "first",
    "begin",
    "start_ip",
    "startip",
    "ip_start",
    "first_ip",
    "range_start",
    "from_ip",
    "ip_from",
    "start_address",
    "first_address",
];
const LAST: [&str; 12] = [
    "end",
    "last",
    "stop",
    "end_ip",
    "endip",
    "ip_end",
    "last_ip",
    "range_end",
    "to_ip",
    "ip_to",
    "end_address",
    "last_address",
];
const LENGTH: [&str; 9] = [
    "netmask",
    "mask",
    "prefixlen",
    "prefix_len",
    "prefix_length",
    "length",
    "masklen",
    "subnet_mask",
    "bits",
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

/// The name of a column in small letters, with `_` between words.
pub fn name_of(cell: &str) -> String {
    cell.trim().to_lowercase().replace([' ', '-'], "_")
}

/// Returns true if a column of this name has addresses.
pub fn is_address(cell: &str) -> bool {
    ADDRESS.contains(&name_of(cell).as_str())
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
    let (first, last) = (places(&FIRST), places(&LAST));
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
                    Ok(address) => with_length(address, cell(*length)?),
                    // The length is there already.
                    Err(_) => address::read(text),
                }
            };
            vec![network()]
        }
    }
}
