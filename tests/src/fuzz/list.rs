//! Fuzz target for files of prefixes.

use std::{collections::BTreeSet, net::IpAddr};

use limiter_config::lists::{read, show};

use super::message::expect_one_line;

/// Reads a list. Exactly the invalid lines are reported; the prefixes are those in the text, and read back.
pub(super) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // A byte order mark at the beginning is not part of the text.
    let lines = text.trim_start_matches('\u{feff}').lines();
    let entries: Vec<_> = (1..)
        .zip(lines)
        .map(|(number, line)| (number, line.split('#').next().unwrap().trim()))
        .filter(|(_, entry)| !entry.is_empty())
        .map(|(number, entry)| (number, network(entry)))
        .collect();
    match read(&text) {
        Ok(prefixes) => {
            let found: BTreeSet<_> = prefixes
                .iter()
                .map(|prefix| (prefix.addr(), prefix.prefix_len()))
                .collect();
            let wanted: Option<BTreeSet<_>> =
                entries.into_iter().map(|(_, prefix)| prefix).collect();
            assert_eq!(Some(found), wanted);
            let shown: String = prefixes.iter().map(|prefix| show(prefix) + "\n").collect();
            assert_eq!(read(&shown), Ok(prefixes));
        }
        Err(errors) => {
            let lines: Vec<_> = errors.iter().map(|(line, _)| *line).collect();
            let wrong = entries.iter().filter(|(_, prefix)| prefix.is_none());
            let wrong: Vec<_> = wrong.map(|(line, _)| *line).collect();
            assert_eq!(lines, wrong);
            for (_, why) in errors {
                expect_one_line(&why.to_string());
            }
        }
    }
}

/// An address and a prefix length without host bits, by the standard library alone.
fn network(entry: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match entry.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (entry, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let (bits, most) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let length = match length {
        None => most,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
    };
    let behind = bits.checked_shl(length.into()).unwrap_or(0);
    (length <= most && behind == 0).then_some((address, length))
}
