//! The formats of lists.

use std::{fmt, str::FromStr};

/// A format of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An entry in each line, with comments.
    Plain,
    /// The first and the last address of a range in each line.
    Ranges,
    /// An address, and the length or netmask of its network, in each line.
    Networks,
    /// Columns, with a header or without.
    Table,
    /// DShield's columns: the first address, the last one, and the length.
    Dshield,
    /// PeerGuardian's lines: a name, `:`, and a range.
    P2p,
    /// eMule's lines: a range, a level and a name.
    Ipfilter,
    /// The lists of networks that the registries have delegated: an address, and how many there are.
    Delegated,
    /// The output of `ipset save`.
    Ipset,
    /// The output of `nft list set`, or a file for `nft -f`.
    Nft,
    /// Tor's list of exits.
    Tor,
    /// A JSON document.
    Json,
    /// A JSON document in each line.
    JsonLines,
}

impl Format {
    /// All formats, with the names by which they are set.
    pub const ALL: [(Self, &str); 13] = [
        (Self::Plain, "plain"),
        (Self::Ranges, "ranges"),
        (Self::Networks, "networks"),
        (Self::Table, "table"),
        (Self::Dshield, "dshield"),
        (Self::P2p, "p2p"),
        (Self::Ipfilter, "ipfilter"),
        (Self::Delegated, "delegated"),
        (Self::Ipset, "ipset"),
        (Self::Nft, "nft"),
        (Self::Tor, "tor"),
        (Self::Json, "json"),
        (Self::JsonLines, "json-lines"),
    ];

    /// The name by which it is set.
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(format, _)| *format == self)
            .map_or("", |(_, name)| name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, text: &mut fmt::Formatter) -> fmt::Result {
        text.write_str(self.name())
    }
}

/// The name of a format that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a format: write one of auto, {names}", names = Format::ALL.map(|(_, name)| name).join(", "))]
pub struct Unknown(String);

impl FromStr for Format {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        let mut all = Self::ALL.iter();
        let found = all.find(|(_, name)| *name == text);
        found
            .map(|(format, _)| *format)
            .ok_or_else(|| Unknown(text.to_owned()))
    }
}
