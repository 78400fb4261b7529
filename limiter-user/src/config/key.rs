//! `--key`: the parts of a packet that select its bucket.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use limiter_common::table::key::{Address, KeyMask, SourceKey, Words, is_link_local};
use serde::{Deserialize, Serialize};

use super::{Invalid, as_text};

/// The parts that packets must have in common to share a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key {
    /// The part of the source's address.
    pub source: Source,
    /// True if each destination port has its own bucket.
    pub by_port: bool,
}

/// The part of a source's address that selects its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// No part: one bucket for all packets.
    Interface,
    /// One bucket for each prefix.
    Prefix {
        /// Bits of an IPv4 address, 0 to 32.
        ipv4: u8,
        /// Bits of an IPv6 address, 0 to 128.
        ipv6: u8,
    },
}

impl Default for Key {
    /// A whole IPv4 address; an IPv6 /64, the usual assignment to one host.
    fn default() -> Self {
        Self {
            source: Source::Prefix { ipv4: 32, ipv6: 64 },
            by_port: false,
        }
    }
}

/// The suffix of a key with a bucket for each destination port.
const BY_PORT: &str = ",destination_port";

impl FromStr for Key {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (source, by_port) = match text.strip_suffix(BY_PORT) {
            Some(source) => (source, true),
            None => (text, false),
        };
        let bits = |part: &str, most: u8| {
            let digits = part
                .strip_prefix('/')
                .filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            digits
                .and_then(|d| d.parse().ok())
                .filter(|bits: &u8| *bits <= most)
        };
        let source = match source {
            "interface" => Some(Source::Interface),
            prefixes => prefixes.split_once(',').and_then(|(v4, v6)| {
                Some(Source::Prefix {
                    ipv4: bits(v4, 32)?,
                    ipv6: bits(v6, 128)?,
                })
            }),
        };
        source.map(|source| Self { source, by_port }).ok_or_else(|| {
            Invalid::new(format!(
                "'{text}' is not a key: write /0../32 for IPv4 and /0../128 for IPv6, as in /32,/64, or interface; add {BY_PORT} for a bucket for each port"
            ))
        })
    }
}

impl Key {
    /// Returns true if all packets share one bucket.
    pub fn is_single(&self) -> bool {
        self.source == Source::Interface && !self.by_port
    }

    /// The masks that the program applies.
    pub fn mask(&self) -> KeyMask {
        let masks = match self.source {
            Source::Interface => KeyMask::interface(),
            Source::Prefix { ipv4, ipv6 } => KeyMask::prefixes(ipv4.into(), ipv6.into()),
        };
        KeyMask {
            port: self.by_port.into(),
            ..masks
        }
    }

    /// The key of packets from `address` to `port` under the limit in `slot`.
    pub fn of(&self, slot: u32, address: IpAddr, port: u16) -> SourceKey {
        self.mask().key(slot, &self::address(address), port)
    }

    /// The source of a key as text: `192.0.2.7`, `2001:db8::/64`, `interface`. If the port is part of the key, it
    /// follows, as in `192.0.2.7 port 53`.
    pub fn show(&self, key: &SourceKey) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(key, &mut text);
        text
    }

    /// Writes the text of [`Self::show`] to an existing buffer.
    pub fn write(&self, key: &SourceKey, to: &mut impl fmt::Write) -> fmt::Result {
        self.write_source(key, to)?;
        if self.by_port {
            write!(to, " port {}", key.port())?;
        }
        Ok(())
    }

    /// The source of a key as text, without the port.
    pub fn show_source(&self, key: &SourceKey) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_source(key, &mut text);
        text
    }

    fn write_source(&self, key: &SourceKey, to: &mut impl fmt::Write) -> fmt::Result {
        let Some((address, bits)) = self.prefix(key) else {
            return to.write_str("interface");
        };
        if bits == if address.is_ipv4() { 32 } else { 128 } {
            write!(to, "{address}")
        } else {
            write!(to, "{address}/{bits}")
        }
    }

    /// The addresses that share the bucket; `None` if all do.
    pub fn network(&self, key: &SourceKey) -> Option<IpNet> {
        let (address, bits) = self.prefix(key)?;
        IpNet::new(address, bits).ok()
    }

    fn prefix(&self, key: &SourceKey) -> Option<(IpAddr, u8)> {
        let Source::Prefix { ipv4, ipv6 } = self.source else {
            return None;
        };
        Some(match key.family() {
            limiter_common::table::key::IPV4 => {
                let [a, b, c, d, ..] = octets(key.address());
                (IpAddr::from([a, b, c, d]), ipv4)
            }
            _ if self.mask().link_local != 0 && is_link_local(&key.address()) => {
                (IpAddr::from(octets(key.address())), 128)
            }
            _ => (IpAddr::from(octets(key.address())), ipv6),
        })
    }
}

/// An address as the program reads it from a packet.
pub fn address(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(v4) => Address::ipv4(u32::from_ne_bytes(v4.octets())),
        IpAddr::V6(v6) => Address::ipv6(words(v6.octets())),
    }
}

fn words(octets: [u8; 16]) -> Words {
    std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|i| octets[8 * word + i])))
}

/// An address's bytes, in the order of a packet.
pub fn octets(words: Words) -> [u8; 16] {
    std::array::from_fn(|i| words[i / 8].to_ne_bytes()[i % 8])
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source {
            Source::Interface => f.write_str("interface")?,
            Source::Prefix { ipv4, ipv6 } => write!(f, "/{ipv4},/{ipv6}")?,
        }
        f.write_str(if self.by_port { BY_PORT } else { "" })
    }
}

as_text!(Key);
