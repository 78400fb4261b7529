//! Lists of sources: `allow`, `deny`, and tiers with user-defined names.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::Path,
};

use ipnet::IpNet;

use super::{Invalid, ensure, invalid};
use crate::files;

/// Name of the list of sources that pass before any limit.
pub const ALLOW: &str = "allow";
/// Name of the list of sources that are dropped before any limit.
pub const DENY: &str = "deny";
/// Name of the bans, where a file says what a fleet shares.
pub const BANS: &str = "bans";
/// The most tiers: the bits of a word, without those of [`ALLOW`], [`DENY`] and the bans.
pub const TIERS_MAX: usize = 29;

/// Prefixes in order, each once.
pub type Prefixes = BTreeSet<IpNet>;

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

/// Reads an address.
pub fn address(text: &str) -> Result<IpAddr, Invalid> {
    let wrong = |_| invalid!("not an address: write one as in 192.0.2.7 or 2001:db8::7");
    text.parse().map_err(wrong)
}

/// Reads a prefix. A bare address is a prefix of that address alone. Bits behind the prefix are refused, because
/// either the address or the network may be meant.
pub fn prefix(text: &str) -> Result<IpNet, Invalid> {
    let net = match text.parse::<IpAddr>() {
        Ok(address) => return Ok(address.into()),
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
    Ok(net)
}

/// Reads a prefix, or an address with the length of its network, as in 2001:db8::7/64 for 2001:db8::/64.
pub fn prefix_around(text: &str) -> Result<IpNet, Invalid> {
    network(text).map_or_else(|| prefix(text), |net| Ok(net.trunc()))
}

/// Formats a prefix. A single address has no length.
pub fn show(prefix: &IpNet) -> String {
    if prefix.prefix_len() == prefix.max_prefix_len() {
        prefix.addr().to_string()
    } else {
        prefix.to_string()
    }
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

/// Reads a file of prefixes. Returns a message about each mistake, but of at most some lines.
pub fn from_file(path: &Path) -> Result<Prefixes, Vec<String>> {
    const BAD_LINES: usize = 5;
    let shown = path.display();
    let text = files::read_text(path).map_err(|error| {
        vec![format!(
            "{shown} cannot be read ({error}): check the path and its permissions"
        )]
    })?;
    read(&text).map_err(|errors| {
        let messages = errors.iter().take(BAD_LINES);
        let mut messages: Vec<_> = messages
            .map(|(line, why)| format!("{shown} line {line}: {why}"))
            .collect();
        if errors.len() > BAD_LINES {
            let more = errors.len() - BAD_LINES;
            messages.push(format!("{shown}: and {more} more: correct them too"));
        }
        messages
    })
}

/// Reads prefixes, one per line. `#` begins a comment, and empty lines are ignored. All mistakes are returned, with
/// their lines.
pub fn read(text: &str) -> Result<Prefixes, Vec<(usize, Invalid)>> {
    // Some editors begin a file with a byte order mark.
    let lines = text.trim_start_matches('\u{feff}').lines();
    let (mut prefixes, mut errors) = (Prefixes::new(), Vec::new());
    for (line, number) in lines.zip(1..) {
        match line.split('#').next().map(str::trim) {
            None | Some("") => {}
            Some(entry) => match prefix(entry) {
                Ok(prefix) => prefixes.extend([prefix]),
                Err(invalid) => errors.push((number, invalid)),
            },
        }
    }
    match errors.is_empty() {
        true => Ok(prefixes),
        false => Err(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_file_has_one_prefix_per_line() {
        let read_back =
            read("# partners\n192.0.2.0/24  # lab\n\n  2001:db8::/32\n192.0.2.0/24\r\n").unwrap();
        assert_eq!(
            read_back.len(),
            2,
            "a prefix that is there twice is there once"
        );
        let errors = read("192.0.2.0/24\n192.0.2.7/24\nx\n").unwrap_err();
        let lines: Vec<_> = errors.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
