//! Names and labels in the store.

use std::net::{Ipv4Addr, Ipv6Addr};

use limiter_common::table::key::{IPV4, IPV6, SourceKey};

use super::error::Error;

/// Maximum length of the name of a fleet, a limit or a list.
const LONGEST: usize = 64;

const LABEL: usize = 128;

/// Returns true if a text is valid as a label: printable ASCII, so that it is harmless in any output.
pub(super) fn is_label(text: &str) -> bool {
    !text.is_empty() && *text == printable(text)
}

/// Makes a label of a text: replaces other characters by `?`, and cuts the text to 128.
pub(super) fn printable(text: &str) -> String {
    let printable = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    text.chars().take(LABEL).map(printable).collect()
}

/// Checks the name of a fleet, a limit or a list for use in the store.
/// Fails if the name is empty, too long, or has characters other than letters, digits, `-`, `_` and `.`.
pub(super) fn name(text: &str) -> Result<&str, Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > LONGEST || !text.chars().all(allowed) {
        return Err(Error::Name(text.escape_debug().take(2 * LONGEST).collect()));
    }
    Ok(text)
}

/// A source as written in the name of its record: `192.0.2.7`, `2001:db8::` or `interface`, followed by `,PORT` if the
/// limit's key has a port.
pub(super) fn source(key: &SourceKey) -> String {
    let [first, rest] = key.address().map(u64::from_be);
    let address = match key.family() {
        IPV4 => Ipv4Addr::from((first >> 32) as u32).to_string(),
        IPV6 => Ipv6Addr::from(u128::from(first) << 64 | u128::from(rest)).to_string(),
        _ => "interface".to_owned(),
    };
    match key.port() {
        0 => address,
        port => format!("{address},{port}"),
    }
}

#[cfg(test)]
mod tests {
    use limiter_common::table::key::{INTERFACE, ipv4_words};

    use super::*;

    fn v4(address: u32, port: u32) -> SourceKey {
        SourceKey::new(IPV4, ipv4_words(address.to_be()), 3, port)
    }

    #[test]
    fn sources_are_written_with_address_and_port() {
        assert_eq!(source(&v4(0xc000_0207, 0)), "192.0.2.7");
        assert_eq!(source(&v4(0xc000_0207, 443)), "192.0.2.7,443");
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        address[15] = 9;
        let words = [0, 8]
            .map(|offset| u64::from_ne_bytes(address[offset..offset + 8].try_into().unwrap()));
        let v6 = SourceKey::new(IPV6, words, 0, 0);
        assert_eq!(source(&v6), "2001:db8::9");
        let all = SourceKey::new(INTERFACE, [0; 2], 0, 0);
        assert_eq!(source(&all), "interface");
    }

    #[test]
    fn name_with_special_characters_or_wrong_length_is_refused() {
        assert_eq!(name("edge-1.b_c").unwrap(), "edge-1.b_c");
        for wrong in ["", "a b", "a{b", "a:b", "a*", "é", &"x".repeat(65)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
