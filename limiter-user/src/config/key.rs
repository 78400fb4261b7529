//! `--key`: what of a source makes its bucket.

use std::{fmt, net::IpAddr, str::FromStr};

use limiter_common::key::{KeyMask, SourceKey};
use serde::{Deserialize, Serialize};

use super::Invalid;

/// Prefix lengths for both families, or one bucket for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Key {
    /// One bucket for everything that comes in.
    Interface,
    /// One bucket for each prefix.
    Source {
        /// Bits of an IPv4 address, 0 to 32.
        ipv4: u8,
        /// Bits of an IPv6 address, 0 to 128.
        ipv6: u8,
    },
}

impl Default for Key {
    /// An IPv4 address; an IPv6 /64, because that is what one host is given.
    fn default() -> Self {
        Self::Source { ipv4: 32, ipv6: 64 }
    }
}

impl FromStr for Key {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "interface" {
            return Ok(Self::Interface);
        }
        let bits = |part: &str, most: u8| {
            let digits = part
                .strip_prefix('/')
                .filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            digits
                .and_then(|d| d.parse().ok())
                .filter(|bits: &u8| *bits <= most)
        };
        text.split_once(',')
            .and_then(|(v4, v6)| Some(Self::Source { ipv4: bits(v4, 32)?, ipv6: bits(v6, 128)? }))
            .ok_or_else(|| {
                Invalid::new(format!(
                    "'{text}' is not a key: write /0../32 for IPv4 and /0../128 for IPv6, as in /32,/64, or interface"
                ))
            })
    }
}

impl Key {
    /// The masks that the program applies.
    #[must_use]
    pub fn mask(&self) -> KeyMask {
        match *self {
            Self::Interface => KeyMask::interface(),
            Self::Source { ipv4, ipv6 } => KeyMask::prefixes(ipv4.into(), ipv6.into()),
        }
    }

    /// The key under which packets from `address` are kept.
    #[must_use]
    pub fn of(&self, address: IpAddr) -> SourceKey {
        let mask = self.mask();
        match (self, address) {
            (Self::Interface, _) => SourceKey::interface(),
            (_, IpAddr::V4(v4)) => SourceKey::ipv4(u32::from_ne_bytes(v4.octets()), mask.ipv4),
            (_, IpAddr::V6(v6)) => SourceKey::ipv6(words(v6.octets()), mask.ipv6),
        }
    }

    /// How the source behind a key is written: `192.0.2.7`, `2001:db8::/64`, `interface`.
    #[must_use]
    pub fn show(&self, key: &SourceKey) -> String {
        let Self::Source { ipv4, ipv6 } = *self else {
            return "interface".to_owned();
        };
        let (address, bits, whole) = match key.family {
            limiter_common::key::IPV4 => (IpAddr::from(key.address[0].to_ne_bytes()), ipv4, 32),
            _ => (IpAddr::from(octets(key.address)), ipv6, 128),
        };
        if bits == whole {
            address.to_string()
        } else {
            format!("{address}/{bits}")
        }
    }
}

fn words(octets: [u8; 16]) -> [u32; 4] {
    std::array::from_fn(|i| {
        u32::from_ne_bytes([
            octets[4 * i],
            octets[4 * i + 1],
            octets[4 * i + 2],
            octets[4 * i + 3],
        ])
    })
}

fn octets(words: [u32; 4]) -> [u8; 16] {
    std::array::from_fn(|i| words[i / 4].to_ne_bytes()[i % 4])
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface => f.write_str("interface"),
            Self::Source { ipv4, ipv6 } => write!(f, "/{ipv4},/{ipv6}"),
        }
    }
}

impl TryFrom<String> for Key {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        for text in ["/32,/64", "/24,/48", "/0,/0", "/32,/128", "interface"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "/33,/64",
            "/32,/129",
            "/32",
            "32,64",
            "/32,/64,/1",
            "/-1,/64",
            "/32,/+64",
            "Interface",
        ] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }

    #[test]
    fn sources_are_cut_to_their_prefix() {
        let shown = |key: &str, address: &str| {
            let key: Key = key.parse().unwrap();
            key.show(&key.of(address.parse().unwrap()))
        };
        assert_eq!(shown("/32,/64", "192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("/24,/64", "192.0.2.7"), "192.0.2.0/24");
        assert_eq!(shown("/25,/64", "192.0.2.200"), "192.0.2.128/25");
        assert_eq!(
            shown("/32,/64", "2001:db8:1:2:3:4:5:6"),
            "2001:db8:1:2::/64"
        );
        assert_eq!(
            shown("/32,/65", "2001:db8:1:2:8000::1"),
            "2001:db8:1:2:8000::/65"
        );
        assert_eq!(shown("/32,/128", "::1"), "::1");
        assert_eq!(shown("/0,/0", "192.0.2.7"), "0.0.0.0/0");
        assert_eq!(shown("interface", "192.0.2.7"), "interface");
    }

    #[test]
    fn families_never_share_a_bucket() {
        let key = Key::Source {
            ipv4: 32,
            ipv6: 128,
        };
        let v4 = key.of("192.0.2.7".parse().unwrap());
        let mapped = key.of("::ffff:192.0.2.7".parse().unwrap());
        let first_word = key.of("c000:0207::".parse().unwrap());
        assert!(v4 != mapped && v4 != first_word);
    }
}
