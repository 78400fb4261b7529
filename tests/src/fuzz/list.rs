//! Fuzz target for files of prefixes.

use std::{collections::BTreeSet, net::IpAddr};

use limiter_config::lists::{read, show};

use super::message::expect_one_line;

/// Reads a list. The prefixes read back. If each line is an address or prefix for the standard library, they are those.
pub(super) fn run(bytes: &[u8]) {
    match read(bytes) {
        Ok(prefixes) => {
            let shown: String = prefixes.iter().map(|prefix| show(&prefix) + "\n").collect();
            assert_eq!(read(shown.as_bytes()), Ok(prefixes));
        }
        Err(mistakes) => mistakes.iter().for_each(|why| expect_one_line(why)),
    }
    let is_plain = |byte: &u8| *byte == b'\n' || (b' '..=b'~').contains(byte);
    let text = String::from_utf8_lossy(bytes);
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap().trim());
    let entries = lines.filter(|entry| !entry.is_empty()).map(network);
    let wanted: Option<BTreeSet<_>> = entries.collect();
    if let Some(wanted) = wanted
        && bytes.iter().all(is_plain)
    {
        let read = read(bytes).unwrap();
        let found = read.iter();
        let found: BTreeSet<_> = found
            .map(|prefix| (prefix.addr(), prefix.prefix_len()))
            .collect();
        assert_eq!(found, wanted);
    }
}

/// An address and a prefix length without host bits, by the standard library alone.
fn network(entry: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match entry.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (entry, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let (bits, most): (u128, u8) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let length = match length {
        None => most,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        Some(_) => return None,
    };
    let behind = bits.checked_shl(length.into()).unwrap_or(0);
    let is_valid = length <= most && behind == 0;
    // An IPv4 address in IPv6 form is the IPv4 address.
    let meant = match (address.to_canonical(), most.wrapping_sub(length)) {
        (IpAddr::V4(v4), host @ 0..=32) => (IpAddr::V4(v4), 32 - host),
        _ => (address, length),
    };
    is_valid.then_some(meant)
}
