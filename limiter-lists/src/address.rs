//! One entry of a list: an address, a prefix, a range, or an address with a netmask.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr},
};

use ipnet::IpNet;

use crate::{range::Range, reason::Reason};

/// The addresses of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The addresses.
    pub range: Range,
    /// True if it was a prefix with bits set behind its length: the network is taken.
    pub has_host_bits: bool,
}

impl From<Range> for Addresses {
    fn from(range: Range) -> Self {
        Self {
            range,
            has_host_bits: false,
        }
    }
}

/// Reads an address, a prefix, an address with a netmask behind `/` or spaces, or a range with `-`.
pub fn read(text: &str) -> Result<Addresses, Reason> {
    // Most words of tables and names are told from addresses by this alone.
    if !text.bytes().any(|byte| byte == b'.' || byte == b':') {
        return Err(Reason::NotAddress);
    }
    // Some publishers write dots so that nobody clicks on an address.
    let text = match text.contains("[.]") || text.contains("[:]") {
        true => Cow::Owned(text.replace("[.]", ".").replace("[:]", ":")),
        false => Cow::Borrowed(text),
    };
    if let Ok(address) = text.parse() {
        return Ok(Range::of_address(address).into());
    }
    if let Some((address, length)) = text.split_once('/') {
        return prefix(address, length);
    }
    if let Some((first, last)) = text.split_once('-') {
        let ends = (address(first.trim_end())?, address(last.trim_start())?);
        return between(ends.0, ends.1);
    }
    match text.split_once(char::is_whitespace) {
        Some((first, mask)) if is_netmask(mask.trim_start()) => {
            with_length(address(first)?, mask.trim_start())
        }
        _ => address(&text).map(|address| Range::of_address(address).into()),
    }
}

/// The addresses between two, with them.
pub fn between(first: IpAddr, last: IpAddr) -> Result<Addresses, Reason> {
    let range = Range::new(first, last).ok_or(Reason::WrongRange)?;
    Ok(range.into())
}

/// Reads an address alone.
pub fn address(text: &str) -> Result<IpAddr, Reason> {
    text.parse().map_err(|_| why_not(text))
}

/// Reads an address of which each number may have three digits, as in 192.000.002.007. All numbers have three digits, or
/// none begins with 0: otherwise they may be octal.
pub fn padded(text: &str) -> Result<IpAddr, Reason> {
    if text.len() == 15 && text.split('.').all(|part| part.len() == 3) {
        let numbers = text
            .split('.')
            .map(|part| match part.trim_start_matches('0') {
                "" => "0",
                number => number,
            });
        let plain: Vec<_> = numbers.collect();
        return address(&plain.join("."));
    }
    address(text)
}

fn prefix(before: &str, length: &str) -> Result<Addresses, Reason> {
    let address = address(before)?;
    match length.find(|end: char| end.is_whitespace() || ",;|\"".contains(end)) {
        Some(end) if with_length(address, &length[..end]).is_ok() => Err(Reason::Text),
        _ => with_length(address, length),
    }
}

/// The addresses of the network of an address, whose length or netmask is this.
pub fn with_length(address: IpAddr, length: &str) -> Result<Addresses, Reason> {
    if length.len() > 1 && length.starts_with('0') && is_number(length) {
        return Err(Reason::LeadingZeros);
    }
    let length = match (address, is_number(length)) {
        (_, true) => length.parse().ok(),
        (IpAddr::V4(_), false) => netmask(length),
        _ => None,
    };
    let net = length.and_then(|length| IpNet::new(address, length).ok());
    let net = net.ok_or(Reason::WrongLength)?;
    Ok(Addresses {
        range: Range::of_prefix(&net),
        has_host_bits: net.trunc() != net,
    })
}

/// The length of the prefix that a netmask is.
fn netmask(text: &str) -> Option<u8> {
    let mask: Ipv4Addr = text.parse().ok()?;
    ipnet::ipv4_mask_to_prefix(mask).ok()
}

/// Returns true if the text is a netmask of /8 or longer. No packet has such a source, so it is no address.
pub fn is_netmask(text: &str) -> bool {
    text.starts_with("255.") && netmask(text).is_some()
}

/// Returns true if the text is a number.
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The reason why a text is not an address.
fn why_not(text: &str) -> Reason {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    let is_port = |text: &str| is_number(text);
    if text
        .split_once('%')
        .is_some_and(|(address, _)| is_address(address))
    {
        return Reason::Zone;
    }
    if let Some((before, port)) = text.rsplit_once(':') {
        let inner = before
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'));
        if is_port(port) && (before.parse::<Ipv4Addr>().is_ok() || inner.is_some_and(is_address)) {
            return Reason::Port;
        }
    }
    if has_leading_zeros(text) {
        return Reason::LeadingZeros;
    }
    let first = text
        .split(|end: char| end.is_whitespace() || ",;|\"".contains(end))
        .next();
    match first {
        Some(first) if first.len() < text.len() && read(first).is_ok() => Reason::Text,
        _ => Reason::NotAddress,
    }
}

/// Returns true if it were an IPv4 address without the zeros that its numbers begin with.
fn has_leading_zeros(text: &str) -> bool {
    let is_byte =
        |number: &str| is_number(number) && number.parse().is_ok_and(|number: u32| number < 256);
    text.split('.').all(is_byte)
        && text.split('.').count() == 4
        && text
            .split('.')
            .any(|number| number.len() > 1 && number.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, Reason> {
        let read = read(text)?;
        let mut all: Vec<_> = read.range.prefixes().map(|net| net.to_string()).collect();
        if read.has_host_bits {
            all.push("host bits".to_owned());
        }
        Ok(all.join(" "))
    }

    #[test]
    fn entries_mean_their_addresses() {
        for (text, meant) in [
            ("192.0.2.7", "192.0.2.7/32"),
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.7/24", "192.0.2.0/24 host bits"),
            ("192.0.2.0/255.255.255.0", "192.0.2.0/24"),
            ("192.0.2.0 255.255.255.0", "192.0.2.0/24"),
            ("192.0.2.9\t255.255.255.248", "192.0.2.8/29 host bits"),
            ("192.0.2.0-192.0.2.3", "192.0.2.0/30"),
            ("192.0.2.0 - 192.0.2.2", "192.0.2.0/31 192.0.2.2/32"),
            ("2001:db8::-2001:db8::1", "2001:db8::/127"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("::ffff:c000:207/120", "192.0.2.0/24 host bits"),
            ("192.0.2[.]7", "192.0.2.7/32"),
            ("192[.]0[.]2[.]0/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(meant), "{text}");
        }
    }

    #[test]
    fn other_entries_have_a_reason() {
        for (text, reason) in [
            ("", Reason::NotAddress),
            ("name", Reason::NotAddress),
            ("192.0.2", Reason::NotAddress),
            ("192.0.2.*", Reason::NotAddress),
            ("192.0.2.32198.51.100.223", Reason::NotAddress),
            ("3221225991", Reason::NotAddress),
            ("192.0.2.0-255", Reason::NotAddress),
            ("192.0.2.7 name", Reason::Text),
            ("192.0.2.0/24 name", Reason::Text),
            ("192.0.2.7 192.0.2.9", Reason::Text),
            ("192.0.2.7,192.0.2.9", Reason::Text),
            ("192.0.2.0 0.0.0.255", Reason::Text),
            ("192.0.2.0/33", Reason::WrongLength),
            ("192.0.2.0/-1", Reason::WrongLength),
            ("192.0.2.0/", Reason::WrongLength),
            ("192.0.2.0/255.0.255.0", Reason::WrongLength),
            ("192.0.2.0/0.0.0.255", Reason::WrongLength),
            ("2001:db8::/255.255.255.0", Reason::WrongLength),
            ("2001:db8::/129", Reason::WrongLength),
            ("192.0.2.9-192.0.2.7", Reason::WrongRange),
            ("192.0.2.9-2001:db8::", Reason::WrongRange),
            ("010.1.2.3", Reason::LeadingZeros),
            ("010.1.2.0/24", Reason::LeadingZeros),
            ("192.0.2.0/024", Reason::LeadingZeros),
            ("0.0.0.0/000", Reason::LeadingZeros),
            ("192.000.002.007", Reason::LeadingZeros),
            ("192.0.2.7:80", Reason::Port),
            ("[2001:db8::7]:443", Reason::Port),
            ("fe80::1%eth0", Reason::Zone),
        ] {
            assert_eq!(shown(text), Err(reason), "{text}");
        }
        assert_eq!(padded("192.000.002.007"), Ok([192, 0, 2, 7].into()));
        assert_eq!(padded("192.0.2.7"), Ok([192, 0, 2, 7].into()));
        assert_eq!(padded("192.0.002.7"), Err(Reason::LeadingZeros));
    }
}
