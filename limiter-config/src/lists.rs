//! Lists of sources: `allow`, `deny`, and tiers with user-defined names.

use std::{collections::BTreeMap, net::IpAddr, path::Path};

use ipnet::IpNet;
use limiter_lists::{Format, Options, Range, Unknown};

use super::{Invalid, Prefixes, Text, ensure, invalid, nat64};
use crate::files;

/// Name of the list of sources that pass before any limit.
pub const ALLOW: &str = "allow";
/// Name of the list of sources that are dropped before any limit.
pub const DENY: &str = "deny";
/// Name of the bans, where a file says what a fleet shares.
pub const BANS: &str = "bans";
/// The name of no certain format.
const AUTO: &str = "auto";
/// Name of the list that decisions of CrowdSec about throttling add sources to, if a configuration has it.
pub const THROTTLED: &str = "throttled";
/// The most tiers: the bits of a word, without those of [`ALLOW`], [`DENY`] and the bans.
pub const TIERS_MAX: usize = 29;

/// All lists of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Sources that pass.
    pub allow: Prefixes,
    /// Sources that are dropped.
    pub deny: Prefixes,
    /// Lists that limits match on, by name.
    pub tiers: BTreeMap<String, Prefixes>,
}

impl Lists {
    /// Returns true if no list has a prefix.
    pub fn are_empty(&self) -> bool {
        self.all().all(|(_, prefixes)| prefixes.is_empty())
    }

    /// Each list with its name: `allow`, `deny`, then the tiers in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Prefixes)> {
        let tiers = self
            .tiers
            .iter()
            .map(|(name, prefixes)| (name.as_str(), prefixes));
        [(ALLOW, &self.allow), (DENY, &self.deny)]
            .into_iter()
            .chain(tiers)
    }

    /// The list with this name.
    pub fn named_mut(&mut self, name: &str) -> Option<&mut Prefixes> {
        match name {
            ALLOW => Some(&mut self.allow),
            DENY => Some(&mut self.deny),
            tier => self.tiers.get_mut(tier),
        }
    }
}

/// Reads an address. An IPv4 address in IPv6 form is the IPv4 address.
pub fn address(text: &str) -> Result<IpAddr, Invalid> {
    let wrong = |_| invalid!("not an address: write one as in 192.0.2.7 or 2001:db8::7");
    let address: IpAddr = text.parse().map_err(wrong)?;
    Ok(address.to_canonical())
}

/// Reads a prefix. A bare address is a prefix of that address alone. Bits behind the prefix are refused, because
/// either the address or the network may be meant. IPv4 addresses in IPv6 form are the IPv4 addresses.
pub fn prefix(text: &str) -> Result<IpNet, Invalid> {
    let net = match text.parse::<IpAddr>() {
        Ok(address) => return Ok(address.to_canonical().into()),
        Err(_) => network(text).ok_or_else(|| {
            invalid!(
                "'{}' is not a prefix: write one as in 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7",
                text.escape_debug()
            )
        })?,
    };
    ensure!(
        net.trunc() == net,
        "'{text}' has bits set after its prefix: write {} for the network, or {} for the one address",
        net.trunc(),
        net.addr()
    );
    Ok(Range::of_prefix(&net).prefixes().next().unwrap_or(net))
}

/// Reads a prefix, or an address with the length of its network, as in 2001:db8::7/64 for 2001:db8::/64. A client behind the
/// well-known prefix of NAT64 has no such network: this would be the network of all of them.
pub fn prefix_around(text: &str) -> Result<IpNet, Invalid> {
    let around = |net: IpNet| match net.addr() {
        IpAddr::V6(address)
            if net.trunc() != net
                && nat64::well_known().contains(&address)
                && net.prefix_len() < 96 =>
        {
            prefix(&address.to_string())
        }
        _ => prefix(&net.trunc().to_string()),
    };
    network(text).map_or_else(|| prefix(text), around)
}

/// Formats a prefix. A single address has no length.
pub fn show(prefix: &IpNet) -> String {
    let mut text = String::new();
    write(prefix, &mut text);
    text
}

/// Writes a prefix behind a text, as [`show`] formats it.
pub(crate) fn write(prefix: &IpNet, text: &mut String) {
    match prefix {
        // Files of long lists are made of these: the formatter of addresses takes several times as long.
        IpNet::V4(net) => {
            for (place, octet) in net.addr().octets().into_iter().enumerate() {
                if place > 0 {
                    text.push('.');
                }
                push_number(octet, text);
            }
        }
        IpNet::V6(net) => text.push_str(&net.addr().to_string()),
    }
    if prefix.prefix_len() != prefix.max_prefix_len() {
        text.push('/');
        push_number(prefix.prefix_len(), text);
    }
}

fn push_number(number: u8, text: &mut String) {
    let digit = |value: u8| char::from(b'0' + value % 10);
    if number >= 100 {
        text.push(digit(number / 100));
    }
    if number >= 10 {
        text.push(digit(number / 10));
    }
    text.push(digit(number));
}

/// Reads an address with a length. The address has the same syntax as a bare one: 010.0.0.0/8 is refused, because
/// some programs read it as 8.0.0.0/8.
fn network(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    if !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

/// The format of a list; `None`: it is found by the list itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListFormat(Option<Format>);

impl Text for ListFormat {
    fn read(text: &str) -> Result<Self, Invalid> {
        match text {
            AUTO => Ok(Self(None)),
            name => name
                .parse()
                .map(|format| Self(Some(format)))
                .map_err(|why: Unknown| invalid!("{why}")),
        }
    }

    fn shown(&self) -> String {
        self.0.map_or(AUTO.to_owned(), |format| format.to_string())
    }
}

crate::read_as!(ListFormat: Option<Format>);

/// Reads a file of prefixes. Returns a message about each mistake, but of at most some lines. Without `format` or `fields`,
/// they are found by the file itself.
pub fn from_file(
    path: &Path,
    format: Option<Format>,
    fields: Vec<String>,
) -> Result<Prefixes, Vec<String>> {
    let shown = path.display();
    let bytes = files::read(path, files::TEXT_MOST).map_err(|error| {
        vec![format!(
            "{shown} cannot be read ({error}): check the path and its permissions"
        )]
    })?;
    let named = |mistakes: Vec<String>| {
        let mistakes = mistakes.into_iter();
        let has_place = |why: &str| why.starts_with("line ") || why.starts_with("element ");
        let named = mistakes.map(|why| match has_place(&why) {
            true => format!("{shown} {why}"),
            false => format!("{shown}: {why}"),
        });
        named.collect()
    };
    read_as(&bytes, format, fields).map_err(named)
}

/// Reads a file of prefixes that a command names.
pub fn named(path: &Path) -> Result<Prefixes, Vec<String>> {
    from_file(path, None, Vec::new()).map_err(without_options)
}

/// Reads a list in one of the forms in which feeds read them (`limiter_lists`). Each part that is not understood, and
/// each entry that would be in force as something else, is a mistake.
pub fn read(bytes: &[u8]) -> Result<Prefixes, Vec<String>> {
    read_as(bytes, None, Vec::new()).map_err(without_options)
}

/// Says where the options that messages advise can be set: commands do not have them.
fn without_options(mut mistakes: Vec<String>) -> Vec<String> {
    let is_advice = |why: &String| why.contains("set format") || why.contains("field");
    if mistakes.iter().any(is_advice) {
        mistakes.push(
            "format and field are keys of a feed's file, and of a list with file in a configuration"
                .to_owned(),
        );
    }
    mistakes
}

fn read_as(
    bytes: &[u8],
    format: Option<Format>,
    fields: Vec<String>,
) -> Result<Prefixes, Vec<String>> {
    const BAD_LINES: usize = 5;
    let options = Options {
        format,
        fields,
        max_size: files::TEXT_MOST,
    };
    let list = limiter_lists::read(bytes, &options).map_err(|error| {
        vec![match error.is_size() {
            true => format!("{error}: use a feed, which has max-size, or a shorter list"),
            false => error.to_string(),
        }]
    })?;
    let examples = list.left_out.examples.iter();
    let examples = examples.filter(|example| example.reason.is_mistake());
    let mut mistakes: Vec<_> = examples
        .map(|example| {
            let (text, reason) = (&example.text, example.reason);
            (example.place, format!("'{text}': {reason}"))
        })
        .collect();
    let wrong = list.entries.iter().filter_map(|entry| {
        let network = entry.range.prefixes().next()?;
        let why = match entry.ends_in {
            Some(_) => "the entry has an end, which lists do not have: use a feed".to_owned(),
            None if entry.has_host_bits => format!(
                "bits are set after the prefix: write {network} for the network, or the one address"
            ),
            None => return None,
        };
        Some((entry.place, why))
    });
    let examples = mistakes.len() as u64;
    mistakes.extend(wrong);
    let count = list.left_out.mistakes() + mistakes.len() as u64 - examples;
    if count == 0 {
        let prefixes = list.entries.iter().flat_map(|entry| entry.range.prefixes());
        return Ok(prefixes.collect());
    }
    mistakes.sort();
    let lines = mistakes.iter().take(BAD_LINES);
    let mut messages: Vec<_> = lines
        .map(|(place, why)| format!("{place}: {why}"))
        .collect();
    if count > messages.len() as u64 {
        let more = count - messages.len() as u64;
        messages.push(format!(
            "read as {} ({}): and {more} more: correct them too",
            list.format, list.why
        ));
    }
    messages.extend(list.advice);
    Err(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_files_are_read_as_those_of_feeds_are_and_nothing_is_left_out() {
        let shown = |text: &str| -> Vec<String> {
            read(text.as_bytes())
                .unwrap()
                .iter()
                .map(|net| show(&net))
                .collect()
        };
        let plain = "# partners\n192.0.2.0/24  # lab\n\n  2001:db8::/32\n192.0.2.0/24\r\n";
        assert_eq!(shown(plain), ["192.0.2.0/24", "2001:db8::/32"]);
        assert_eq!(shown("# none\n"), [""; 0]);
        assert_eq!(shown("192.0.2.0-192.0.2.2"), ["192.0.2.0/31", "192.0.2.2"]);
        assert_eq!(shown("[\"::ffff:192.0.2.7\"]"), ["192.0.2.7"]);
        for (text, says) in [
            (
                "192.0.2.0/24\n192.0.2.7/24",
                "line 2: bits are set after the prefix: write 192.0.2.0/24",
            ),
            ("192.0.2.1\nx", "line 2: 'x': not an address"),
            (
                "192.0.2.1 192.0.2.9",
                "line 1: '192.0.2.1 192.0.2.9': several addresses",
            ),
            ("add a 192.0.2.1 timeout 9", "line 1: the entry has an end"),
            ("0.0.0.0 ads.example", "hosts file"),
        ] {
            let mistakes = read(text.as_bytes()).unwrap_err();
            assert!(mistakes[0].contains(says), "{mistakes:?}");
        }
        let unclear = read(b"192.0.2.1 192.0.2.9").unwrap_err();
        let last = unclear.last().map(String::as_str).unwrap_or_default();
        assert!(
            last.starts_with("format and field are keys of"),
            "{unclear:?}"
        );
        let advice = "columns 2, 3 have addresses: set field to choose";
        let table = read(b"x,192.0.2.1,192.0.2.9\n").unwrap_err();
        assert!(table.iter().any(|why| why == advice), "{table:?}");
        let many = read("x\n".repeat(500).as_bytes()).unwrap_err();
        assert!(
            many.len() == 6 && many[5].contains("and 495 more"),
            "{many:?}"
        );
    }

    #[test]
    fn prefixes_are_shown_as_the_library_formats_them() {
        for octet in 0..=255 {
            for length in [0, 1, 9, 10, 31, 32] {
                let net = IpNet::new([octet, 0, 255 - octet, octet / 2].into(), length).unwrap();
                let wanted = match length {
                    32 => net.addr().to_string(),
                    _ => net.to_string(),
                };
                assert_eq!(show(&net), wanted);
            }
        }
        for text in ["2001:db8::/32", "::/0", "2001:db8::7"] {
            assert_eq!(prefix(text).map(|net| show(&net)).as_deref(), Ok(text));
        }
    }

    #[test]
    fn ipv4_addresses_in_ipv6_form_are_ipv4_addresses() {
        for (text, meant) in [
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:198.51.100.0/120", "198.51.100.0/24"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(prefix(text).map(|net| show(&net)).as_deref(), Ok(meant));
        }
        assert_eq!(address("::ffff:192.0.2.7"), Ok([192, 0, 2, 7].into()));
        assert!(prefix("::ffff:192.0.2.7/120").is_err());
    }
}
